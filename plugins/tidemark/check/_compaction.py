"""What a check says of compacted topics: Kafka forgets records that nobody has read yet."""

from collections.abc import Iterator
from datetime import timedelta

from tidemark.check.findings import Doubtful, Finding, State, Unknown, finding
from tidemark.kafka.retention import Retention
from tidemark.model.deletions import DELETIONS_KEPT, SHARE, duration
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.target import Mode

ADVISED = timedelta(days=7)
"""Longer than a weekend, and than a week without anybody who looks."""


def compaction_findings(pipeline: Pipeline, topic: str, retention: Retention) -> Iterator[Finding]:
    """Each doubt about a compacted topic; nothing of a topic that is not compacted."""
    name = f"compaction of {topic}"
    if retention.policy is None:
        yield finding(name, _unknown)
    elif retention.may_compact:
        doubts = [*_doubts(pipeline, retention)]
        yield from (Finding(name, State.warned, one.fact, one.remedy) for one in doubts)
        if not doubts:
            yield Finding(name, State.ok, "of each key the newest record is kept; all is read so")


def _unknown() -> str:
    raise Unknown(
        "the topic's settings were not told (ACL DescribeConfigs): whether compaction takes"
        " records before they are read is not known"
    )


def _doubts(pipeline: Pipeline, retention: Retention) -> Iterator[Doubtful]:
    for one in pipeline.all_targets.values():
        if one.mode is Mode.append:
            yield Doubtful(
                f"{one.table} gets a row for each record that is still there: of a key the records"
                " that compaction took before they were read are missing, and nothing tells it",
                "raise min.compaction.lag.ms above the longest pause of the runs, or use mode:"
                " upsert",
            )
        if one.order_by:
            yield Doubtful(
                "of a key compaction keeps the record with the largest offset, which need not have"
                f" the largest {one.order_by} (order_by of {one.table})",
                "raise min.compaction.lag.ms above the longest pause of the runs",
            )
    if pipeline.decode.is_event and pipeline.needs_deletions:
        yield Doubtful(
            "of a deletion compaction may leave the tombstone alone, and take the change event"
            " before it",
            "let the tombstone delete the key, too (metadata: [tombstone])",
        )
    yield from _of_deletions(pipeline, retention)


def _of_deletions(pipeline: Pipeline, retention: Retention) -> Iterator[Doubtful]:
    kept = retention.deletions_ms
    if pipeline.needs_deletions and kept is not None and kept < ADVISED.total_seconds() * 1000:
        yield Doubtful(
            f"deletions are kept for {duration(kept / 1000)}: a run that comes later stops"
            " (DATA_LOST), for it can't tell which were taken",
            f"raise {DELETIONS_KEPT} above the longest pause of the runs, by a week say",
        )


def refuse_long_pause(kept_ms: int | None, longest: timedelta | None) -> None:
    """Doubt whether runs come often enough for deletions to be read.

    Raises:
        Doubtful: the longest pause between runs was half as long as deletions are kept, or longer.
    """
    if kept_ms is None or longest is None or longest.total_seconds() * 1000 * SHARE < kept_ms:
        return
    raise Doubtful(
        f"the longest pause of its runs was {duration(longest.total_seconds())}, and its topics"
        f" keep deletions for {duration(kept_ms / 1000)}",
        f"raise {DELETIONS_KEPT} of the topics, or run more often",
    )
