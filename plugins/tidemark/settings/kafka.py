"""The section `kafka` of a pipeline file: where records come from, and how members share them."""

import re
from collections import Counter
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tidemark.model.facts import is_pattern
from tidemark.model.membership import (
    BROKERS_SESSION_SECONDS,
    DEFAULT_ASSIGNMENT,
    MOST_MEMBERS,
    SESSION_TIMEOUT_SECONDS,
    GroupProtocol,
    Membership,
    Strategy,
    refuse_impossible,
)
from tidemark.settings.sections import CARRIED, CONNECTION, Strict

TOPIC = r"[A-Za-z0-9._-]{1,249}"
"""What Kafka takes as the name of a topic, and of a static member."""

MOST_SESSION_SECONDS = 3600
"""The largest session time-out that librdkafka takes."""


class StartPosition(StrEnum):
    """Where a partition begins when the region first opens."""

    beginning = "beginning"
    end = "end"
    committed = "committed"


class FromTimestamp(Strict):
    """Start at the first record whose timestamp is at or after this time."""

    timestamp: AwareDatetime
    """ISO 8601 with a zone, from 1970 on: 2024-01-01T00:00:00Z."""

    @field_validator("timestamp")
    @classmethod
    def _is_of_an_age_that_kafka_has(cls, timestamp: AwareDatetime) -> AwareDatetime:
        if timestamp.timestamp() < 0:  # Kafka has other meanings for negative times
            raise ValueError("Kafka's times begin with 1970: use start: beginning for all records")
        return timestamp

    @property
    def milliseconds(self) -> int:
        """Milliseconds since the epoch, Kafka's unit."""
        return int(self.timestamp.timestamp() * 1000)


def _several(value: Any) -> Any:
    """One of them may stand without a list."""
    return [value] if isinstance(value, str) else value


def matchable(topics: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """The topics whose patterns may be compiled and matched: of what a DAG carries, names alone."""
    if not (info.context or {}).get(CARRIED):
        return topics
    return tuple(topic for topic in topics if not is_pattern(topic))


class KafkaSettings(Strict):
    """Where records come from."""

    connection: Annotated[str, Field(pattern=CONNECTION)]
    """Airflow connection of type kafka; its extra is the librdkafka configuration."""
    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    """Topics of the region. One that begins with ^ is a pattern that a whole topic name matches."""
    max_unpacked_bytes: Annotated[int, Field(ge=100_000_000, lt=1 << 31)] | None = None
    """Memory for a compressed batch that unpacks to more than 100 MB: it is read by itself, and a
    value of more than 16 MiB in it is a dead letter. None: it stops the run."""
    start: StartPosition | FromTimestamp = StartPosition.beginning
    """Where the first run starts. Partitions that appear later start at their beginning."""
    group: Annotated[str, Field(min_length=1, max_length=249)] | None = None
    """Consumer group id; the region's name by default."""
    group_protocol: GroupProtocol = GroupProtocol.classic
    """classic: a member shares the partitions; consumer: the broker does (KIP-848, Kafka 4.0)."""
    assignment_strategy: Annotated[
        tuple[Strategy, ...], Field(min_length=1), BeforeValidator(_several)
    ] = DEFAULT_ASSIGNMENT
    """Strategies of a classic group; list two to change from one to the other."""
    static_membership: bool = False
    """Whether a member that restarts within its session keeps its partitions; classic only."""
    session_timeout_seconds: Annotated[int, Field(gt=0, le=MOST_SESSION_SECONDS)] = (
        SESSION_TIMEOUT_SECONDS
    )
    """Seconds of silence after which a classic group gives a member's partitions to others."""

    @field_validator("topics")
    @classmethod
    def _are_names_or_patterns(
        cls, topics: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        for topic in topics:
            is_name = re.fullmatch(TOPIC, topic) and topic not in (".", "..")
            if not is_pattern(topic) and not is_name:
                raise ValueError(f"{topic!r} is no topic name; a pattern begins with ^")
        for topic in matchable(topics, info):
            try:
                re.compile(topic)
            except re.error as error:
                raise ValueError(f"{topic!r} is no pattern: {error}") from error
        return topics

    @field_validator("topics", "assignment_strategy")
    @classmethod
    def _are_named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted(str(name) for name, times in Counter(names).items() if times > 1):
            raise ValueError(f"{', '.join(twice)} stands there twice: remove one")
        return names

    @field_validator("group")
    @classmethod
    def _is_seen_whole(cls, group: str | None) -> str | None:
        if group is not None and (group != group.strip() or not group.isprintable()):
            raise ValueError(
                f"{group!r} begins or ends with a blank, or has a character that can't be seen:"
                " Kafka takes it for another group than it looks like"
            )
        return group

    @model_validator(mode="after")
    def _has_static_names(self) -> Self:
        name = f"{self.group}-{MOST_MEMBERS}"  # see static_name
        if self.static_membership and self.group and not re.fullmatch(TOPIC, name):
            raise ValueError(
                f"static_membership names its members by the group, such as {name}, and Kafka takes"
                " only letters, digits, . _ and -, at most 249: give it another group"
            )
        return self

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        classic = {"assignment_strategy", "session_timeout_seconds"} & self.model_fields_set
        static = {"static_membership"} if self.static_membership else set()
        refuse_impossible(self.group_protocol, self.assignment_strategy, sorted(classic | static))
        return self

    @property
    def session_seconds(self) -> int:
        """After how much silence Kafka misses a member."""
        is_classic = self.group_protocol is GroupProtocol.classic
        return self.session_timeout_seconds if is_classic else BROKERS_SESSION_SECONDS

    def membership(self, instance_id: str) -> Membership:
        """How a member takes part; `instance_id` is its name where membership is static."""
        return Membership(
            self.group_protocol,
            self.assignment_strategy,
            self.session_timeout_seconds * 1000,
            instance_id if self.static_membership else None,
        )
