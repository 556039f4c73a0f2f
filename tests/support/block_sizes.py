"""How much Arrow's JSON reader is given, each time that it reads."""

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import json as arrow_json


def block_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each reading from now on; the list grows with them."""
    sizes, read = list[int](), arrow_json.read_json

    def measured(source: pa.NativeFile, **options: Any) -> pa.Table:
        sizes.append(source.size())
        return read(source, **options)

    monkeypatch.setattr(arrow_json, "read_json", measured)
    return sizes
