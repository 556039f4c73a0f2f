"""Rows for an output topic as Avro: by the target's columns, under a registered schema."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemark.decode.registry import registry_config, registry_of
from tidemark.encode.avro_rows import AvroRows
from tidemark.model.output import OutputRecord
from tidemark.postgres.session import Cursor
from tidemark.settings.connections import Connection
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.target import Target


def avro_output(registry: Connection, topic: str, target: Target) -> "AvroOutput":
    """What encodes the target's rows, by the registry of this connection.

    Raises:
        InvalidSettings: the connection can't be used.
    """
    return AvroOutput(registry_config(registry), topic, target)


@dataclass(frozen=True, slots=True)
class AvroOutput:
    """A topic whose values are Avro; keys stay JSON."""

    registry: Mapping[str, Any]
    """The client's configuration."""
    topic: str
    target: Target

    def prepared(self, cursor: Cursor) -> tuple[AvroRows, int] | None:
        """How rows are written, and the id of their schema; None: the table is not there yet.

        Raises:
            Refused: a column has no place in a schema, or the registry does not take it.
            Unreachable: the registry does not answer.
        """
        columns = find_columns(cursor, self.target.schema, self.target.table)
        if not columns:
            return None
        rows = AvroRows.of([(c.name, c.type_name) for c in columns if c.name != BATCH_SEQ])
        return rows, registry_of(self.registry).register(f"{self.topic}-value", rows.text)

    def encoded(self, cursor: Cursor, records: Iterable[OutputRecord]) -> Iterator[OutputRecord]:
        """The records with values in Avro; those without one stay so. Raises as `prepared`."""
        found = self.prepared(cursor)
        for record in records:
            if found and record.value is not None:
                rows, schema_id = found
                record = replace(record, value=rows.encoded(schema_id, record.value))
            yield record
