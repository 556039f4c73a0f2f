from dataclasses import replace
from typing import Any

import pytest

from tidemark.model.errors import (
    NextOffsetsNotHeld,
    NotHeld,
    OtherCluster,
    TopicNotThatOfTheLedger,
)
from tidemark.model.facts import (
    Facts,
    backlog,
    refuse_not_held,
    refuse_other_cluster,
    refuse_other_topics,
    unknown_partitions,
)
from tidemark.model.offsets import Offsets, TopicPartition

A, B, C = (TopicPartition("t", number) for number in (0, 1, 7))
FACTS = Facts("c", {"t": "id"}, {A: 10, B: 0}, {A: 20, B: 5})


@pytest.mark.parametrize("offset", [10, 15, 20])
def test_an_offset_from_log_start_to_end_is_there(offset: int) -> None:
    refuse_not_held("r", {A: offset}, FACTS)


@pytest.mark.parametrize(
    ("offsets", "missing"),
    [
        ({A: 9}, {NotHeld(A, 9, (10, 20)): "t[0]@[9, 10) is below the log start"}),
        ({A: 21}, {NotHeld(A, 21, (10, 20)): "t[0] ends at 20, before the ledger's offset 21"}),
        ({C: 3}, {NotHeld(C, 3, None): "t[7] is gone from Kafka; the ledger's next offset is 3"}),
        (
            {A: 3, B: 9},
            {NotHeld(A, 3, (10, 20)): "t[0]@[3, 10)", NotHeld(B, 9, (0, 5)): "t[1] ends at 5"},
        ),
    ],
)
def test_every_missing_range_is_named(offsets: Offsets, missing: dict[NotHeld, str]) -> None:
    with pytest.raises(NextOffsetsNotHeld) as lost:
        refuse_not_held("r", offsets, FACTS)
    assert lost.value.region == "r"
    assert lost.value.partitions == tuple(missing)
    assert [text for held, text in missing.items() if not str(held).startswith(text)] == []


def test_another_cluster_is_refused() -> None:
    refuse_other_cluster("r", "c", FACTS)
    with pytest.raises(OtherCluster) as lost:
        refuse_other_cluster("r", "c", replace(FACTS, cluster_id="d"))
    assert (lost.value.known, lost.value.found) == ("c", "d")


@pytest.mark.parametrize(("ids", "found"), [({"t": "other"}, "other"), ({}, None)])
def test_another_topic_id_is_refused(ids: dict[str, str], found: str | None) -> None:
    refuse_other_topics("r", [("t", "id"), ("t", "id")], FACTS.topic_ids)
    with pytest.raises(TopicNotThatOfTheLedger) as lost:
        refuse_other_topics("r", [("t", "id")], ids)
    assert (lost.value.topic, lost.value.topic_id, lost.value.found_id) == ("t", "id", found)


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
