from dataclasses import replace
from typing import Any

import pytest

from tidemark.errors import DataLost
from tidemark.model.facts import (
    Facts,
    backlog,
    check_cluster,
    check_retained,
    check_topic_ids,
    unknown_partitions,
)
from tidemark.model.offsets import Offsets, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FACTS = Facts("c", {"t": "id"}, {A: 10, B: 0}, {A: 20, B: 5})


@pytest.mark.parametrize("offset", [10, 15, 20])
def test_an_offset_from_log_start_to_end_is_there(offset: int) -> None:
    check_retained("r", {A: offset}, FACTS)


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ({A: 9}, r"t\[0\]@\[9, 10\) is below the log start"),
        ({A: 21}, r"t\[0\] ends at 20, before the ledger's offset 21: truncated"),
        ({TopicPartition("t", 7): 3}, r"t\[7\] is gone from Kafka; the ledger's next offset is 3"),
        ({A: 3, B: 9}, r"t\[0\]@\[3, 10\).*; t\[1\] ends at 5"),
    ],
)
def test_every_missing_range_is_named(offsets: Offsets, text: str) -> None:
    with pytest.raises(DataLost, match=text) as lost:
        check_retained("r", offsets, FACTS)
    assert "region r" in str(lost.value)
    assert "Nothing was skipped" in str(lost.value)


def test_another_cluster_is_refused() -> None:
    check_cluster("r", "c", FACTS)
    with pytest.raises(DataLost, match="belong to Kafka cluster c, but the connection leads to d"):
        check_cluster("r", "c", replace(FACTS, cluster_id="d"))


@pytest.mark.parametrize(
    ("ids", "text"), [({"t": "other"}, "was created again as other"), ({}, "is gone")]
)
def test_another_topic_id_is_refused(ids: dict[str, str], text: str) -> None:
    check_topic_ids("r", [("t", "id"), ("t", "id")], FACTS.topic_ids)
    with pytest.raises(DataLost, match=rf"topic t \(id id\) {text}"):
        check_topic_ids("r", [("t", "id")], ids)


@pytest.mark.parametrize(
    ("next_offsets", "targets", "expected"),
    [
        ({A: 3, B: 5}, {A: 10, B: 5}, 7),
        ({A: 12}, {A: 10}, 0),
        ({}, {A: 10}, 0),
        ({A: 0}, {}, 0),
    ],
)
def test_a_backlog_is_what_lies_before_the_targets(
    next_offsets: Any, targets: Any, expected: int
) -> None:
    assert backlog(next_offsets, targets) == expected


def test_partitions_that_the_ledger_does_not_know_are_told_in_order() -> None:
    assert unknown_partitions([], FACTS) == [A, B]
    assert unknown_partitions([A], FACTS) == [B]
