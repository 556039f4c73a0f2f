"""The section `output` of a pipeline file: the topic that published rows are sent to."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from tidemark.model.bounds import MOST
from tidemark.model.topics import takes_in
from tidemark.settings.kafka import TOPIC
from tidemark.settings.section import Positive, Strict
from tidemark.settings.target import ColumnName, Mode, TargetName, TargetSettings

OUTPUT = f"^{TOPIC}$"

MOST_SECONDS = 900
"""A broker's transaction.max.timeout.ms, unless it is set otherwise."""


class OutputFormat(StrEnum):
    """How a row becomes a record."""

    json = "json"


class OutputStart(StrEnum):
    """Where the output of a region begins that has published before."""

    beginning = "beginning"
    end = "end"


def _supported(value: object) -> object:
    if value == "avro":
        raise ValueError("avro needs a schema in a registry, and Tidemark registers none: use json")
    return value


def _own(topic: str) -> str:
    if topic.startswith("__"):
        raise ValueError(f"{topic!r} is a topic of Kafka's own: give the output one of its own")
    return topic


class OutputSettings(Strict):
    """Where rows are sent once they are published."""

    topic: Annotated[str, Field(pattern=OUTPUT), AfterValidator(_own)]
    """Topic of the same Kafka cluster, which exists; not one that the pipeline reads."""
    format: Annotated[OutputFormat, BeforeValidator(_supported)] = OutputFormat.json
    """json: an object of the row's columns."""
    target: TargetName | None = None
    """Of several targets, the one whose rows are sent."""
    key: tuple[ColumnName, ...] = ()
    """Columns of the record's key, an object too; none: records have no key. For the mode upsert it
    is the target's key."""
    start: OutputStart | None = None
    """Needed where the region has published before: beginning sends all that it published, end what
    it publishes from now on."""
    resume_after: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """Seq of the newest batch in the topic, where Kafka has lost what was sent; 0: none is."""
    max_rows: Positive = 100_000
    """Rows in one Kafka transaction, of whole batches: a larger batch has one of its own."""
    max_unsent: Positive = 10
    """Published batches that are not sent, from which on no further one is planned."""
    max_seconds: Annotated[int, Field(gt=0, le=MOST_SECONDS)] = 60
    """Seconds that one Kafka transaction may take (transaction.timeout.ms)."""


def refuse_unfit(
    output: OutputSettings, topics: tuple[str, ...], targets: Mapping[str, TargetSettings]
) -> None:
    """Refuse an output that the rest of the file does not allow.

    Raises:
        ValueError: names what does not fit.
    """
    if takes_in(topics, output.topic):
        raise ValueError(
            f"topic {output.topic} is one that kafka.topics reads: its own rows would come back for"
            " ever; send them to another topic"
        )
    if output.target is None and len(targets) > 1:
        raise ValueError(f"target: name the one whose rows are sent: {', '.join(targets)}")
    if output.target is not None and output.target not in targets:
        raise ValueError(f"target: the pipeline has no target of the name {output.target}")
    target = targets[output.target or next(iter(targets))]
    if target.mode is Mode.append:
        return
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
