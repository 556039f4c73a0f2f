"""What can be told of compacted topics: how long they keep deletions, and what check doubts."""

from datetime import timedelta
from typing import Any

import pytest

from tidemark.check._compaction import compaction_findings, refuse_long_pause
from tidemark.check.findings import Doubtful, State
from tidemark.kafka.retention import Retention, _retention
from tidemark.model.plan import MAX_BIGINT
from tidemark.settings.pipeline import Pipeline

HOUR = 3_600_000
SETTINGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "delete.retention.ms": str(HOUR),
    "min.compaction.lag.ms": str(2 * HOUR),
    "message.timestamp.type": "CreateTime",
}


def pipeline(target: dict[str, Any], metadata: list[str], **decode: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "region": "orders",
            "kafka": {"connection": "tidemark_kafka", "topics": ["orders"]},
            "decode": {"schema": {"id": "bigint"}, "metadata": metadata, **decode},
            "target": {"connection": "tidemark_warehouse", "table": "public.orders", **target},
        }
    )


APPEND = pipeline({}, [])
UPSERT = {"mode": "upsert", "key": ["id"]}
DELETING = pipeline({**UPSERT, "deleted": "kafka_tombstone"}, ["tombstone"])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, HOUR),
        ({"message.timestamp.type": "LogAppendTime"}, 3 * HOUR),
        ({"cleanup.policy": "delete"}, None),
        ({"delete.retention.ms": str(MAX_BIGINT), "message.timestamp.type": "LogAppendTime"},
         MAX_BIGINT),
    ],
    ids=["a producer may write any time", "the broker's time", "not compacted", "for ever"],
)  # fmt: skip
def test_a_deletion_is_kept_for_its_time_and_the_lag_that_the_broker_counts(
    changed: dict[str, str], expected: int | None
) -> None:
    assert _retention(SETTINGS | changed).deletions_ms == expected


@pytest.mark.parametrize(
    ("one", "is_bound"),
    [
        (APPEND, False),
        (pipeline(UPSERT, []), False),
        (pipeline(UPSERT, ["tombstone"]), True),
        (pipeline({**UPSERT, "deleted": "is_gone"}, []), True),
        (DELETING, True),
    ],
)
def test_rows_depend_on_deletions_where_an_upsert_takes_them(one: Pipeline, is_bound: bool) -> None:
    assert one.needs_deletions is is_bound


@pytest.mark.parametrize(
    ("one", "retention", "told"),
    [
        (APPEND, Retention("delete", HOUR), []),
        (APPEND, Retention(), [State.skipped]),
        (APPEND, Retention("compact", None, HOUR), [State.warned]),
        (DELETING, Retention("compact", None, 24 * HOUR), [State.warned]),
        (DELETING, Retention("compact", None, 24 * 7 * HOUR), [State.ok]),
        (pipeline(UPSERT, []), Retention("compact", None, HOUR), [State.ok]),
        (pipeline({**UPSERT, "order_by": "at"}, []), Retention("compact", None, HOUR),
         [State.warned]),
        (pipeline({**UPSERT, "deleted": "deleted"}, [], envelope="debezium"),
         Retention("compact", None, HOUR), [State.warned, State.warned]),
    ],
)  # fmt: skip
def test_check_tells_what_compaction_may_take_unread(
    one: Pipeline, retention: Retention, told: list[State]
) -> None:
    found = list(compaction_findings(one, "orders", retention))
    assert [finding.state for finding in found] == told
    assert {finding.check for finding in found} <= {"compaction of orders"}


def test_runs_that_rested_for_half_the_time_are_doubted() -> None:
    refuse_long_pause(None, timedelta(days=99))
    refuse_long_pause(HOUR, None)
    refuse_long_pause(HOUR, timedelta(minutes=29))
    with pytest.raises(Doubtful) as doubt:
        refuse_long_pause(HOUR, timedelta(minutes=31))
    assert "31.0 min" in doubt.value.fact
