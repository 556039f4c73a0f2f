"""The registry of the local stack keeps what it was told."""

from pathlib import Path

import pytest
from tests.support.registry import KnownRegistry

from tidemark_local._folder import Folder
from tidemark_local._registry import LocalRegistry


@pytest.mark.long
def test_schemas_outlive_a_restart(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.create()
    registry = LocalRegistry(folder)
    try:
        assert registry.start()
        number = KnownRegistry(registry.url).register("s", '"int"')
        assert not registry.start()
        registry.stop()
        assert registry.pid is None
        assert registry.start()
        found = KnownRegistry(registry.url).client().get_latest_version("s")
        assert (found.schema_id, found.schema.schema_str) == (number, '"int"')
    finally:
        registry.stop()
