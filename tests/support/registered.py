"""A region whose columns are those of a registry's newest schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.produce import produce
from tests.support.protobuf import FIRST, made, message, serialized
from tests.support.protobuf import field as field_of
from tests.support.protobuf import file as file_of
from tests.support.registry import KnownRegistry, framed
from tests.support.world import World
from tests.unit.test_avro import record, written

from tidemark.settings.connections import Connection
from tidemark.verify.report import Report
from tidemark.verify.verify import verify

QUICK = {"max.retries": 0, "timeout": 5}
DECODE = {"format": "avro", "registry": "tidemark_registry", "schema": "registry"}
KINDS = {"long": "int64"}
"""Of Protobuf, where Avro's type has another name."""


@dataclass
class RegisteredWorld(World):
    """Its writers register each schema under one subject before they write with it."""

    known: KnownRegistry = field(default_factory=KnownRegistry)
    decode: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> dict[str, Any]:
        found = super().file
        return found | {"decode": DECODE | self.decode, "target": found["target"] | self.target}

    @property
    def connections(self) -> dict[str, Connection]:
        return {**super().connections, "tidemark_registry": self.known.connection(extra=QUICK)}

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def record(self) -> str:
        """The name of its records."""
        return "R" + self.topic.replace("-", "_")

    def write(self, datum: dict[str, Any], *fields: Any) -> None:
        """One record, with a schema of these fields; it is the subject's newest now."""
        if self.decode.get("format") == "protobuf":
            return self.write_message(datum, message(self.record, *map(of_avro, fields)))
        schema = record(*fields, name=self.record)
        number = self.known.register(self.subject, schema)
        return produce(self.kafka, self.topic, [framed(number, written(schema, datum))])

    def write_message(self, datum: dict[str, Any], *messages: Any) -> None:
        """One record of the first of these messages, whose file is the subject's newest now."""
        schema = file_of(*messages)
        number = self.known.register(self.subject, serialized(schema), kind="PROTOBUF")
        data = made(schema, name=f"t.{messages[0].name}")(**datum).SerializeToString()
        produce(self.kafka, self.topic, [framed(number, data, FIRST)])

    def verified(self) -> Report:
        return verify(self.pipeline, self.connections, executor_of=self.executor_of)

    def columns(self) -> list[tuple[str, str]]:
        """Of the target, without those of every table."""
        return self.sql(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_name = 'records' AND column_name <> 'batch_seq'"
            " AND column_name NOT LIKE 'kafka_%%' ORDER BY ordinal_position"
        )


def of_avro(field: tuple[str, Any]) -> Any:
    """A field of Protobuf like one of Avro: a type, or it and null."""
    name, kind = field
    plain: str = kind[1] if isinstance(kind, list) else kind
    return field_of(name, KINDS.get(plain, plain), optional=isinstance(kind, list))


@contextmanager
def silent(known: KnownRegistry) -> Iterator[None]:
    """Nothing listens where the registry was."""
    url, known.url = known.url, "http://127.0.0.1:9"
    try:
        yield
    finally:
        known.url = url
