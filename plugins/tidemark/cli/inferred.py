"""A schema to paste, from the first records that Kafka holds: for `schema: infer`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tidemark.cli.faults import NoFieldInferred, NoSchemaInferred
from tidemark.cli.first_records import raw_records
from tidemark.cli.output import inert
from tidemark.cli.project import connections_of
from tidemark.decode.header_ids import KEY, VALUE, HeaderIds

if TYPE_CHECKING:
    from tidemark.decode.port import Decoding
    from tidemark.decode.written_fields import Fields
    from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Inferred:
    """What to declare in the place of `infer`."""

    records: int
    """Records that were read."""
    fields: "dict[str, Fields]"
    """By section: decode, and decode.key if that is asked for."""

    @property
    def told(self) -> str:
        """As it may be pasted."""
        return "\n".join(
            line for name, fields in self.fields.items() for line in _yaml(name, fields)
        )


def inferred_of(pipeline: "Pipeline", limit: int) -> Inferred:
    """What the first `limit` records say of their fields.

    Raises:
        InvalidSettings: there are none, or the schema of the last one can't be had.
        Unreachable: the registry does not answer.
    """
    from tidemark.spark.specs import decoding_of

    decoding = decoding_of(pipeline.decode, connections_of(pipeline))
    records = raw_records(pipeline, limit)
    found = {}
    if pipeline.decode.infers:
        found["decode"] = _fields(decoding, records, "value", VALUE)
    if decoding.key and pipeline.decode.key and pipeline.decode.key.infers:
        found["decode.key"] = _fields(decoding.key, records, "kafka_key", KEY)
    return Inferred(len(records), found)


def _fields(
    decoding: "Decoding", records: Sequence[dict[str, Any]], part: str, header: str
) -> "Fields":
    from tidemark.decode.infer import inferred
    from tidemark.decode.outcome import Refusal

    ids = HeaderIds(header, has_path=decoding.format == "protobuf")
    values = [one[part] for one in records]
    if decoding.framing == "headers":
        headers = [[(h["key"], h["value"]) for h in one["kafka_headers"]] for one in records]
        values = [ids.framed(*both) for both in zip(values, headers, strict=True)]
    values = [value for value in values if value and isinstance(value, bytes)]
    try:
        found = inferred(decoding, values)
    except Refusal as refusal:
        raise NoSchemaInferred(cause=refusal.detail) from refusal
    if not any(found.values()):
        raise NoFieldInferred(values=len(values))
    return found


def _yaml(section: str, fields: "Fields") -> list[str]:
    keys = [*section.split("."), "schema"]
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(keys)]
    margin = "  " * len(keys)
    for name, text in fields.items():
        line = yaml.safe_dump({name: text} if text else name, allow_unicode=True, width=10**9)
        line = line.removesuffix("...\n").strip()
        lines.append(
            f"{margin}{line}" if text else f"{margin}# {inert(line)}: no type holds what it has"
        )
    return lines
