"""What is said first of a region by its status, where Airflow is not asked."""

from dataclasses import replace
from typing import Any

import pytest

from tidemark.errors import DataLost
from tidemark.model.output import Topics
from tidemark.views.status import OutputStatus, PartitionStatus, RegionStatus
from tidemark.views.verdict import Level, verdict_of

SHORT = PartitionStatus("t", 1, 10, 10, 9)
OUT = Topics("out", "letters")
LONG = PartitionStatus("t", 0, 10, 10, 500)
GONE = PartitionStatus("t", 2, 10, None, None)
"""Of a topic that Kafka no longer has: it keeps no offset for it."""


def status(state: str = "closed", kafka: int | None = 10, **others: Any) -> RegionStatus:
    """A region with one partition whose ledger is at 10, of 12 offsets."""
    told: dict[str, Any] = {"epoch": 2, "head_seq": 7, "consecutive_resets": 0, "run_id": "r1"}
    told |= {"max_consecutive_resets": 5, "partitions": (PartitionStatus("t", 0, 10, kafka, 12),)}
    return RegionStatus("flights", state, **told | others)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (status(), Level.well),
        (status("open", kafka=8), Level.running),
        (status(partitions=(SHORT,)), Level.red),
        (status(partitions=(SHORT, LONG)), Level.red),
        (status(partitions=(replace(SHORT, is_read=False), LONG)), Level.well),
        (status("open", partitions=(SHORT, LONG)), Level.running),
        (status(output=OutputStatus(OUT, 7, 0, 0)), Level.well),
        (status(output=OutputStatus(OUT, 5, 2, 3)), Level.behind),
        (status("open", output=OutputStatus(OUT, 5, 2, 3)), Level.running),
        (status(kafka=None, output=OutputStatus(OUT, None)), Level.red),
        (status(output=OutputStatus(OUT, None, is_said=True)), Level.well),
        (status("open", output=OutputStatus(OUT, None)), Level.running),
        (status(head_seq=0, output=OutputStatus(OUT, None)), Level.well),
        (status("reset"), Level.well),
        (status(kafka=8), Level.behind),
        (status(kafka=None), Level.behind),
        (status(partitions=(GONE,)), Level.well),
        (status("failed"), Level.red),
        (status("failed", problem="UNREACHABLE: no Kafka"), Level.red),
        (status("reset", consecutive_resets=5), Level.red),
        (status("reset", consecutive_resets=1), Level.red),
        (status("reset", consecutive_resets=1, run_state="closed"), Level.well),
        (status(consecutive_resets=4), Level.well),
        (status(problem="UNREACHABLE: no Kafka"), Level.unknown),
        (RegionStatus("flights", "unknown", problem="UNREACHABLE: no ledger"), Level.unknown),
        (RegionStatus("flights", "never opened"), Level.new),
    ],
)
def test_the_worst_is_told(found: RegionStatus, level: Level) -> None:
    assert verdict_of(found).level is level


def test_what_failed_is_named_with_what_to_do() -> None:
    found = verdict_of(status("failed", reason="batch 8 is planned"))
    assert found.code == "RUN_NOT_DONE"
    assert "(r1): batch 8 is planned" in found.sentence
    assert found.remedy


def test_a_failed_run_is_named_also_after_its_reset() -> None:
    found = verdict_of(status("reset", consecutive_resets=1, reason="batch 8 is planned"))
    assert "(r1): batch 8 is planned. It was reset." in found.sentence


def test_a_log_that_ends_before_the_ledgers_offset_is_named_as_lost_data() -> None:
    found = verdict_of(status(partitions=(SHORT, LONG)))
    assert found.sentence == "In Kafka the log of t[1] ends before the ledger's offset."
    assert (found.code, found.remedy) == ("DATA_LOST", DataLost.hint)


def test_an_output_that_kafka_does_not_know_is_for_a_person_to_say() -> None:
    """A mirror, which mends what differs in the offsets, would refuse."""
    found = verdict_of(status(kafka=None, output=OutputStatus(OUT, None)))
    assert found.sentence == "What was sent to topics out and letters is not known."
    assert found.code == "REFUSED"
    assert "output.resume_after" in found.remedy


@pytest.mark.parametrize(("batches", "told"), [(1, "1 batch is"), (2, "2 batches are")])
def test_what_is_published_and_not_sent_is_told(batches: int, told: str) -> None:
    found = verdict_of(status(output=OutputStatus(OUT, 5, batches, 3)))
    assert found.sentence == f"{told} published and not sent."
    assert "tidemark mirror" in found.remedy


def test_what_waits_at_rest_is_told() -> None:
    assert "checkpoint 7; 2 records wait" in verdict_of(status()).sentence


def test_a_run_that_is_on_tells_the_lag() -> None:
    assert "2 offsets" in verdict_of(status("open")).sentence
