"""What the library never asks of Kafka's clients; what else it never does, ruff bans."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]

NEVER = {
    "AlterConsumerGroupOffsets, which fences nobody": r"alter_consumer_group_offsets",
    "a commit outside a transaction": r"consumer\.commit\(|store_offsets\(",
}


@pytest.mark.parametrize("what", NEVER)
def test_group_offsets_are_written_by_fenced_transactions_alone(what: str) -> None:
    assert [path.name for path in SOURCES if re.search(NEVER[what], path.read_text())] == []
