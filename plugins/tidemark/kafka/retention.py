"""What a topic's settings let Kafka delete, and what a span still holds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from tidemark.kafka.admin import SECONDS
from tidemark.kafka.config import quiet
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import Span


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of a topic as they are now; None where they may not be asked (DescribeConfigs)."""

    policy: str | None = None
    """cleanup.policy: delete, compact, or both."""
    milliseconds: int | None = None
    """retention.ms; None also where records are kept for ever."""

    @property
    def may_compact(self) -> bool:
        """Whether compaction takes records, as far as one can know."""
        return self.policy is None or "compact" in self.policy


def retentions(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, Retention]:
    """The settings of each topic."""
    return {topic: _retention(found) for topic, found in _settings(config, topics).items()}


def record_limits(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, int]:
    """max.message.bytes of each topic, where it may be asked (DescribeConfigs)."""
    found = _settings(config, topics)
    return {name: int(one["max.message.bytes"]) for name, one in found.items() if one}


def _settings(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, dict[str, str] | None]:
    """Of each topic; None where they may not be asked."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    admin = AdminClient(quiet(config))  # named: its answers die with it
    asked: dict[Any, Any] = admin.describe_configs(resources, request_timeout=SECONDS)
    return {resource.name: _topic_configuration(future) for resource, future in asked.items()}


def _topic_configuration(future: Any) -> dict[str, str] | None:
    try:
        return {name: one.value for name, one in future.result(SECONDS + 5).items()}
    except KafkaException:
        return None


def _retention(found: Mapping[str, str] | None) -> Retention:
    if found is None:
        return Retention()
    policy, kept = found["cleanup.policy"], int(found["retention.ms"])
    return Retention(policy, kept if "delete" in policy and kept >= 0 else None)


def oldest_timestamp(config: Mapping[str, str], span: Span) -> int | None:
    """Of the span's first record, in milliseconds since 1970; None if there is none, or no time."""
    for records in read_spans(config, [span]):
        kind, milliseconds = records[0].timestamp()
        return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds
    return None
