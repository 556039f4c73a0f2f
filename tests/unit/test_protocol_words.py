"""One word for one thing, in code and SQL."""

import re
from pathlib import Path

import pytest

import tidemark

LIBRARY = Path(tidemark.__file__).parent
SOURCES = [
    path
    for path in [*LIBRARY.rglob("*.py"), *(LIBRARY / "sql").rglob("*.sql")]
    if "local" not in path.parts
]

AVOIDED = {
    "AlterConsumerGroupOffsets": r"alter_consumer_group_offsets",
    "commit of a consumer": r"consumer\.commit\(|store_offsets\(",
    "pickle or eval of data": r"\bpickle\.loads\(|\beval\(|\bexec\(",
    "a decision by a wall clock": r"datetime\.now\(|time\.time\(",
}


@pytest.mark.parametrize("what", AVOIDED)
def test_what_is_never_done(what: str) -> None:
    found = [path.name for path in SOURCES if re.search(AVOIDED[what], path.read_text())]
    assert found == []


def test_plus_one_stands_in_one_function_at_the_kafka_edge() -> None:
    """An offset is always the next one to read."""
    plus_one = re.compile(r"offset[()]*\s*\+\s*1\b")
    found = [path.name for path in SOURCES if plus_one.search(path.read_text())]
    assert found == ["spans.py"]


def test_no_statement_of_the_ledger_is_built_from_strings() -> None:
    for path in (LIBRARY / "ledger").rglob("*.py"):
        assert not re.search(r"execute\(\s*f[\"']", path.read_text()), path.name


def test_the_region_lock_does_not_block_references() -> None:
    text = (LIBRARY / "sql" / "queries" / "lock_region.sql").read_text()
    assert text.rstrip().endswith("FOR NO KEY UPDATE")
