"""A file of offsets that somebody has edited."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidemark.settings.errors import NotExportedOffsets
from tidemark.settings.exported import read_exported

OFFSET = {"topic": "t", "topic_id": None, "partition": 0, "offset": 5}
FACTS = {"region": "r", "group": "g", "cluster_id": "c", "epoch": 1, "seq": 1}


def read(folder: Path, *offsets: dict[str, Any]) -> Any:
    file = folder / "offsets.json"
    file.write_text(json.dumps(FACTS | {"offsets": offsets}))
    return read_exported(file)


def test_what_was_exported_is_read(tmp_path: Path) -> None:
    assert [*read(tmp_path, OFFSET).by_partition.values()] == [5]


@pytest.mark.parametrize("offset", [True, "5", 5.0, 5.5, -1, 2**63, None, [5]])
def test_what_is_no_offset_is_refused(tmp_path: Path, offset: Any) -> None:
    """B16: nothing is taken for a number that is none."""
    with pytest.raises(NotExportedOffsets) as refused:
        read(tmp_path, OFFSET | {"offset": offset})
    assert refused.value.faults[0]["key"] == "offsets.0.offset"


def test_a_partition_is_named_once(tmp_path: Path) -> None:
    """B16"""
    with pytest.raises(NotExportedOffsets) as refused:
        read(tmp_path, OFFSET, OFFSET | {"offset": 6})
    [fault] = refused.value.faults
    assert (fault["key"], "t[0] is there 2 times" in fault["problem"]) == ("", True)
