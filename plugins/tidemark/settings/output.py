"""The sections `output` and `dead_letters`: what published rows and dead letters are sent to.

And how many dead letters a batch may have, and what is kept of them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidemark.model.dead_letters import Limits
from tidemark.model.facts import takes_in
from tidemark.model.plan import MAX_BIGINT
from tidemark.settings.kafka import TOPIC
from tidemark.settings.sections import CONNECTION, Positive, Strict
from tidemark.settings.target import ColumnName, Mode, TargetName, TargetSettings

OUTPUT = f"^{TOPIC}$"

MOST_SECONDS = 900
"""A broker's transaction.max.timeout.ms, unless it is set otherwise."""


class OutputFormat(StrEnum):
    """How a row becomes a record."""

    json = "json"
    avro = "avro"


class OutputStart(StrEnum):
    """Where the output of a region begins that has published before."""

    beginning = "beginning"
    end = "end"


def own(topic: str) -> str:
    """A topic that is none of Kafka's own."""
    if topic.startswith("__"):
        raise ValueError(f"{topic!r} is a topic of Kafka's own: name another")
    return topic


class OutputSettings(Strict):
    """Where rows are sent once they are published, and how what is sent is."""

    topic: Annotated[str, Field(pattern=OUTPUT), AfterValidator(own)] | None = None
    """Topic of the same Kafka cluster, which exists; not one that the pipeline reads. None: dead
    letters alone are sent, and the keys start, resume_after and max_* say how."""
    format: OutputFormat = OutputFormat.json
    """json: an object of the row's columns. avro: a record of them, behind the id of its schema."""
    registry: Annotated[str, Field(pattern=CONNECTION)] | None = None
    """Airflow connection of the schema registry, for the format avro."""
    target: TargetName | None = None
    """Of several targets, the one whose rows are sent."""
    key: tuple[ColumnName, ...] = ()
    """Columns of the record's key, an object too; none: records have no key. For the mode upsert it
    is the target's key."""
    start: OutputStart | None = None
    """Required if the region has published before. beginning: send all published batches; end: send
    later batches only."""
    resume_after: Annotated[int, Field(ge=0, le=MAX_BIGINT)] | None = None
    """Seq of the newest batch in the topic; 0: the topic has none. Set it only when an error asks
    for it, because the group's offsets do not say which batches were sent."""
    max_rows: Positive = 100_000
    """Rows in one Kafka transaction. It holds whole batches; a larger batch gets a transaction of
    its own."""
    max_unsent: Positive = 10
    """Plan no further batch while this many published batches are not sent yet."""
    max_seconds: Annotated[int, Field(gt=0, le=MOST_SECONDS)] = 60
    """Seconds that one Kafka transaction may take (transaction.timeout.ms)."""


def refuse_unfit_output(
    output: OutputSettings, topics: tuple[str, ...], targets: Mapping[str, TargetSettings]
) -> None:
    """Refuse an output that the rest of the file does not allow.

    Raises:
        ValueError: names what does not fit.
    """
    if output.topic is None:
        _refuse_without_topic(output)
        return
    if (output.format is OutputFormat.avro) != bool(output.registry):
        raise ValueError("registry: the format avro needs one, and no other format has one")
    refuse_own_topic(output.topic, topics)
    if output.target is None and len(targets) > 1:
        raise ValueError(f"target: name the one whose rows are sent: {', '.join(targets)}")
    if output.target is not None and output.target not in targets:
        raise ValueError(f"target: the pipeline has no target of the name {output.target}")
    target = targets[output.target or next(iter(targets))]
    if target.mode is not Mode.append:
        _refuse_of_upsert(output, target)


def refuse_own_topic(topic: str, topics: tuple[str, ...]) -> None:
    """Refuse to send to a topic that is read.

    Raises:
        ValueError: it is.
    """
    if takes_in(topics, topic):
        raise ValueError(
            f"topic {topic} is one that kafka.topics reads: what is sent would come back for ever;"
            " send it to another topic"
        )


def refuse_unfit_dead_letters(
    topic: str | None, topics: tuple[str, ...], output: OutputSettings | None
) -> None:
    """Refuse a topic of dead letters that the rest of the file does not allow; an output of none.

    Raises:
        ValueError: names what does not fit.
    """
    if topic:
        refuse_own_topic(topic, topics)
    if output and output.topic is None and topic is None:
        raise ValueError("output.topic: name the topic that rows go to, or remove the section")
    if output and topic and output.topic == topic:
        raise ValueError(
            f"dead_letters.topic {topic} is that of the output: its consumers would take dead"
            " letters for rows; give them a topic of their own"
        )


def _refuse_without_topic(output: OutputSettings) -> None:
    lone = sorted({"format", "registry", "key", "target"} & output.model_fields_set)
    if lone:
        raise ValueError(f"{', '.join(lone)}: of rows alone, and no topic is named that they go to")


def _refuse_of_upsert(output: OutputSettings, target: TargetSettings) -> None:
    if output.key and output.key != target.key:
        raise ValueError(
            "key: a target with mode: upsert has its own, by which deletions are sent; remove"
            " output.key"
        )
    if output.start is OutputStart.beginning:
        raise ValueError(
            "start: beginning needs mode: append: what an upserted row was in earlier batches is"
            " known no more; use start: end"
        )


class DeadLetterSettings(Strict):
    """How many records of a batch may become dead letters, and what is kept of one."""

    max_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of a batch's records; 1: no limit. A batch of up to 100 is judged with earlier ones."""
    max_count: Annotated[int, Field(ge=0, le=MAX_BIGINT)] | None = None
    """Number in one batch, whatever its size."""
    max_bytes: Annotated[int, Field(ge=0, le=1 << 30)] | Literal["whole"] = 64 << 10
    """Bytes kept of one: of key, headers and value together; of the rows that a target refused as
    JSON. What is longer is cut, and keeps its size and its SHA-256. whole: nothing is cut."""
    retain_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which the close of a run purges them, as `--purge --older-than` does. None: they
    stay."""
    topic: Annotated[str, Field(pattern=OUTPUT), AfterValidator(own)] | None = None
    """Topic of the same Kafka cluster that they are sent to once they are published; not one that
    the pipeline reads, nor that of the output. None: nowhere."""

    @property
    def kept_bytes(self) -> int | None:
        """Return `max_bytes`, with None in the place of `whole`."""
        return None if self.max_bytes == "whole" else self.max_bytes

    def limits(self) -> Limits:
        """Make the core's Limits of max_ratio and max_count."""
        return Limits(self.max_ratio, self.max_count)
