"""B12, B20: what a registry may do to the newest schema of Protobuf, between two runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.produce import produce
from tests.support.protobuf import FIRST, field, message, serialized
from tests.support.protobuf import file as file_of
from tests.support.registered import RegisteredWorld
from tests.support.registry import framed, registry
from tests.support.world import World, dump

from tidemark.decode.errors import SubjectUnreadable
from tidemark.model.overrides import ACCEPT_CHANGES
from tidemark.protocol.errors import ChangedSinceCheckpoint, SettingDiffers

ID, NAME = field("id", "int64"), field("name", "string", optional=True)
SECOND = b"\2\2"
"""The place of a schema's second message."""


@pytest.fixture
def region(world: World) -> Iterator[RegisteredWorld]:
    with registry() as known:
        found = RegisteredWorld(
            world.kafka, world.warehouse, world.topic, world.region, known=known
        )
        found.decode |= {"format": "protobuf", "on_new_field": "add"}
        found.target["on_new_column"] = "add"
        yield found


def rows(region: RegisteredWorld, names: str = "id, name") -> list[tuple[Any, ...]]:
    return region.sql(f"SELECT {names} FROM public.records ORDER BY kafka_offset")


@pytest.mark.long
@pytest.mark.parametrize(
    ("newest", "differs"),
    [
        ([ID, field("price", "double")], ("name", "string", None)),
        ([field("id", "int32"), NAME], ("id", "bigint", "int")),
        *(
            (newest, differs)
            for newest, differs in (
                ([ID, field("title", "string")], ("name", "string", None)),
                (
                    [ID, field("name", "string", many=True)],
                    ("name", "string", "array<string>"),
                ),
                ([field("id", "uint64"), NAME], ("id", "bigint", "decimal(20,0)")),
                ([ID, field("name", "bytes")], ("name", "string", "binary")),
                ([ID, field("name", ".t.M")], ("name", "string", None)),
            )
        ),
    ],
    ids=["number used again", "narrow", "renamed", "repeated", "unsigned", "bytes", "endless"],
)
def test_what_is_changed_is_never_taken_along(
    region: RegisteredWorld, newest: list[Any], differs: tuple[str, object, object]
) -> None:
    """B12, B20: whoever only adds fields is not asked; nothing else opens, and nothing is written.

    Field numbers decide nothing: each record is read with the schema that it was written with.
    """
    region.write_message({"id": 1, "name": "a"}, message("M", ID, NAME))
    region.run()
    region.write_message({}, message("M", *newest))
    before = dump(region.warehouse)
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        region.open("second")
    name, *values = differs
    assert refused.value.changes == (SettingDiffers(f"decode.schema.{name}", *values),)
    assert dump(region.warehouse) == before


@pytest.mark.long
def test_a_number_that_means_another_field_now_is_read_as_its_writer_meant_it(
    region: RegisteredWorld,
) -> None:
    """B12: two schemas with their numbers exchanged, and both kinds of records in one run."""
    other = field("name", "string", optional=True, number=1), field("id", "int64", number=2)
    region.write_message({"id": 1, "name": "a"}, message("M", ID, NAME))
    region.run()
    region.write_message({"id": 2, "name": "b"}, message("M", *other))
    region.write_message({"id": 3, "name": "c"}, message("M", ID, NAME))
    region.run("second")
    assert rows(region) == [(1, "a"), (2, "b"), (3, "c")]
    assert region.verified().wrong == 0


def test_the_message_that_has_the_columns_stays_until_a_person_names_another(
    region: RegisteredWorld,
) -> None:
    """B12: it is chosen once, without a doubt; a record of another one is a dead letter."""
    order, refund = message("Order", ID, NAME), message("Refund", ID)
    region.write_message({"id": 1}, order, refund)
    with pytest.raises(SubjectUnreadable) as several:
        region.open()
    assert several.value.cause.endswith("name that of the records by message: t.Order, t.Refund")
    region.write_message({"id": 2, "name": "a"}, order)
    region.run()
    assert rows(region, "id") == [(1,), (2,)]
    both = serialized(file_of(order, refund))
    number = region.known.register(region.subject, both, kind="PROTOBUF")
    values = [framed(number, b"\x08\3", place) for place in (FIRST, SECOND)]
    produce(region.kafka, region.topic, values)
    region.run("second")
    assert rows(region, "id") == [(1,), (2,), (3,)]
    [(reason, detail)] = region.sql("SELECT reason, detail FROM tidemark.dead_letters")
    assert reason == "OTHER_SCHEMA"
    assert "it is t.Refund, not t.Order" in detail
    assert region.verified().wrong == 0
    region.write_message({"id": 4}, refund)
    with pytest.raises(SubjectUnreadable) as gone:
        region.open("third")
    assert gone.value.version == 3
    region.decode["message"] = "t.Refund"
    with pytest.raises(ChangedSinceCheckpoint) as changed:
        region.open("third")
    assert changed.value.changes[0] == SettingDiffers("decode.message", "t.Order", "t.Refund")
    region.overrides = (ACCEPT_CHANGES,)
    region.run("third")
    assert rows(region, "id") == [(1,), (2,), (3,), (4,)]
