"""What a topic's settings let Kafka delete, and what a span still holds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import ConfigResource

from tidemark.kafka.admin import SECONDS, Admin, request_each
from tidemark.kafka.spans import read_spans
from tidemark.kafka.timestamps import timestamp_ms
from tidemark.model.offsets import Span
from tidemark.model.plan import MAX_BIGINT

UNTOLD = {
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNKNOWN_TOPIC_OR_PART",
    "UNSUPPORTED_VERSION",
    "POLICY_VIOLATION",
    "INVALID_REQUEST",
}
"""A broker's answers where it does not tell the settings of a topic."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of a topic as they are now; None where they may not be asked (DescribeConfigs)."""

    policy: str | None = None
    """cleanup.policy: delete, compact, or both."""
    milliseconds: int | None = None
    """retention.ms; None also where records are kept for ever."""

    deletions_ms: int | None = None
    """How long compaction keeps a deletion at least, from when it was written; None also where
    it takes none."""

    @property
    def may_compact(self) -> bool:
        """Whether compaction takes records, as far as one can know."""
        return self.policy is None or "compact" in self.policy


def retentions(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, Retention]:
    """The settings of each topic."""
    return {topic: _retention(found) for topic, found in _settings(config, topics).items()}


def deletions_kept(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, int | None]:
    """For how many ms each topic keeps deletions, None for ever; without those not to be asked.

    Raises:
        Unreachable: no broker answers.
    """
    found = retentions(config, topics)
    return {topic: one.deletions_ms for topic, one in found.items() if one.policy is not None}


def record_limits(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, int]:
    """max.message.bytes of each topic, where it may be asked (DescribeConfigs)."""
    found = _settings(config, topics)
    return {name: int(one["max.message.bytes"]) for name, one in found.items() if one}


def timestamp_type(config: Mapping[str, str], topics: Iterable[str]) -> str | None:
    """Who writes the times of records: LogAppendTime if Kafka does in each topic, else CreateTime.

    None where that may not be asked (DescribeConfigs).

    Raises:
        Unreachable: no broker answers.
    """
    kinds = {
        settings.get("message.timestamp.type", "") if settings else ""
        for settings in _settings(config, topics).values()
    }
    return min(kinds, default="") or None  # one topic of CreateTime is enough


def _settings(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, dict[str, str] | None]:
    """Of each topic; None where they may not be asked."""
    admin = Admin(config)

    def ask(names: list[str]) -> Any:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        asked = admin.describe_configs(resources, request_timeout=SECONDS)
        return {resource.name: future for resource, future in asked.items()}

    names = sorted(topics)
    answers = request_each(
        admin, ask(names) if names else {}, ask, lambda one: f"settings of topic {one}", UNTOLD
    )
    return {
        topic: None if found is None else {name: one.value for name, one in found.items()}
        for topic, found in answers.items()
    }


def _retention(found: Mapping[str, str] | None) -> Retention:
    if found is None or not {"cleanup.policy", "retention.ms"} <= found.keys():
        return Retention()
    policy, kept = found["cleanup.policy"], int(found["retention.ms"])
    return Retention(
        policy,
        kept if "delete" in policy and kept >= 0 else None,
        _deletions_ms(found) if "compact" in policy else None,
    )


def _deletions_ms(found: Mapping[str, str]) -> int | None:
    """A record may not be compacted before its lag is over, which its own timestamp tells.

    A producer may write any time there; the broker writes when the record came. A server that
    speaks Kafka's protocol and has no such setting keeps deletions for ever.
    """
    if not found.get("delete.retention.ms"):
        return None
    is_by_broker = found.get("message.timestamp.type") == "LogAppendTime"
    lag = int(found.get("min.compaction.lag.ms", 0)) if is_by_broker else 0
    return min(int(found["delete.retention.ms"]) + lag, MAX_BIGINT)


def oldest_timestamp(config: Mapping[str, str], span: Span) -> int | None:
    """Of the span's first record, in milliseconds since 1970; None if there is none, or no time."""
    for records in read_spans(config, [span]):
        return timestamp_ms(records[0])
    return None
