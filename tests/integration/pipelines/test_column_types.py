"""B8: a table with columns of many types: a text becomes what it says, or is refused."""

import json
from typing import Any

import pytest
from tests.support.produce import produce
from tests.support.world import World

from tidemark.staging.errors import RowRefused
from tidemark.verify.verify import verify

TYPES = {
    "id": "uuid",
    "status": "shop.mood",
    "other": '"Odd {} %s".kind',
    "address": "inet",
    "net": "cidr",
    "card": "macaddr",
    "doc": "jsonb",
    "raw": "json",
    "span": "int8range",
    "spans": "int4multirange",
    "parts": "numrange",
    "docs": "json[]",
    "short": "shop.short",
    "ids": "uuid[]",
    "moods": "shop.mood[]",
    "tags": "text[]",
    "name": "varchar",
}
ARRAYS = {"ids", "moods", "tags", "docs"}
ROW: dict[str, Any] = {
    "id": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "status": "so so",
    "other": "x",
    "address": "10.0.0.1/32",
    "net": "10.1.0.0/16",
    "card": "08-00-2b-01-02-03",
    "doc": '{"b": 1.50, "a": [null]}',
    "raw": '{"b":  1.50}',
    "span": "[1,5]",
    "spans": "{[1,3),[7,)}",
    "parts": "[1.50,2]",
    "docs": ['{"b":  1.50}', None],
    "short": "abc",
    "ids": ["a0eebc999c0b4ef8bb6d6bb9bd380a11", None],
    "moods": ["sad", "so so"],
    "tags": ["a", 'b"{,'],
    "name": "Ada",
}
WRONG = {
    "id": "no uuid",
    "status": "glad",
    "address": "10.0.0.256",
    "net": "10.1.0.1/16",
    "doc": "{",
    "span": "[5,1]",
    "short": "abcd",
    "moods": ["glad"],
}
"""Texts that say nothing of their column's type."""
SOME = {"id", "doc", "moods"}
KEEPS = {"made": "timestamptz DEFAULT now()", "number": "int GENERATED ALWAYS AS IDENTITY",
         "twice": "text GENERATED ALWAYS AS (short || short) STORED"}  # fmt: skip
"""Columns that fill themselves."""


def made(world: World, key: str = "") -> World:
    """A partitioned table in a schema of its own."""
    world.sql("CREATE SCHEMA shop")
    world.sql("CREATE TYPE shop.mood AS ENUM ('sad', 'so so')")
    world.sql('CREATE SCHEMA "Odd {} %s"')
    world.sql("CREATE TYPE \"Odd {} %s\".kind AS ENUM ('x')")
    world.sql("CREATE DOMAIN shop.short AS text CHECK (length(VALUE) < 4)")
    places = "kafka_topic text, kafka_partition int, kafka_offset bigint, batch_seq bigint"
    columns = ", ".join(f"{name} {kind}" for name, kind in (TYPES | KEEPS).items())
    world.sql(f"CREATE TABLE shop.things ({columns}, {places}{key}) PARTITION BY HASH (id)")
    for n in range(2):
        world.sql(f"CREATE TABLE shop.things_{n} PARTITION OF shop.things"
                  f" FOR VALUES WITH (MODULUS 2, REMAINDER {n})")  # fmt: skip
    fields = {name: "array<string>" if name in ARRAYS else "string" for name in TYPES}
    if key:
        fields["gone"] = "boolean"
    world.settings |= {"decode": {"schema": fields}}
    return world


def send(world: World, *rows: dict[str, Any]) -> None:
    produce(world.kafka, world.topic, [json.dumps(ROW | row).encode() for row in rows])


def is_clean(world: World) -> bool:
    return verify(world.pipeline, world.connections, executor_of=world.executor_of).wrong == 0


def target(world: World, **settings: Any) -> None:
    table = {"connection": "tidemark_warehouse", "table": "shop.things"}
    world.settings["target"] = table | settings


def shown(world: World) -> list[Any]:
    names = "id::text, status::text, host(address), doc->>'b', upper(span), ids::text, name"
    return world.sql(f"SELECT {names}, twice FROM shop.things ORDER BY kafka_offset")


SHOWN = ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "so so", "10.0.0.1", "1.50", 6,
         "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}", "Ada", "abcabc")  # fmt: skip
EMPTY = dict.fromkeys(set(TYPES) - {"id"})


def test_texts_become_what_they_say(world: World) -> None:
    """B8: and a proof compares them as such."""
    target(made(world))
    send(world, {}, {**EMPTY, "id": None}, {"name": "ADA"})
    world.run()
    assert shown(world) == [SHOWN, (None,) * 8, (*SHOWN[:6], "ADA", "abcabc")]
    assert is_clean(world)
    world.sql("UPDATE shop.things SET name = 'Ada' WHERE kafka_offset = 2")
    assert not is_clean(world)
    world.sql("UPDATE shop.things SET name = 'ADA' WHERE kafka_offset = 2")
    assert world.reset(to=0).removed is not None
    assert shown(world) == []
    world.run("again")
    assert len(shown(world)) == 3
    assert is_clean(world)


@pytest.mark.parametrize(
    "column",
    [one if one in SOME else pytest.param(one, marks=pytest.mark.long) for one in WRONG],
)
def test_a_text_that_says_nothing_of_its_type_is_refused(world: World, column: str) -> None:
    """B8: or it is a dead letter, and the others are rows."""
    target(made(world))
    send(world, {}, {column: WRONG[column]})
    with pytest.raises(RowRefused) as refused:
        world.run()
    assert str(WRONG[column]) not in str(refused.value)
    assert shown(world) == []
    target(world, on_refused="dead_letter")
    world.overrides = ("accept_changes",)
    world.run("again")
    assert shown(world) == [SHOWN]
    assert world.sql('SELECT reason, "offset" FROM tidemark.dead_letters') == [
        ("TARGET_REFUSED", 1)
    ]
    assert is_clean(world)


def test_upserts_by_a_uuid(world: World) -> None:
    """B8: two spellings of a key are one key; a rewind puts each value back as it was.

    Also what the table numbers itself, though a row that came back got another number.
    """
    target(made(world, ", PRIMARY KEY (id)"), mode="upsert", key=["id"], deleted="gone")
    send(world, {}, {"name": "Grace", "id": str(ROW["id"]).lower()}, {"id": "0" * 32})
    world.run()
    assert [row[6] for row in shown(world)] == ["Grace", "Ada"]
    before = world.sql("SELECT * FROM shop.things ORDER BY id")
    send(world, {**EMPTY, "doc": "[]"}, {"id": "0" * 32, "gone": True})
    world.run("more")
    assert [row[1] for row in shown(world)] == [None]
    send(world, {"id": "0" * 32, "span": "empty"})
    world.run("back")
    assert is_clean(world)
    world.reset(to=1)
    assert world.sql("SELECT * FROM shop.things ORDER BY id") == before
    assert is_clean(world)
