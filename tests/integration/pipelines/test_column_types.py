"""B8: a table with columns of many types: a text becomes what it says, or is refused."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql
from tests.support.produce import produce
from tests.support.world import World

from tidemark.postgres.session import Connection, open_session
from tidemark.staging._guarded import made_of
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
    "opens": "time",
    "ends": "time(3) with time zone",
    "took": "interval",
    "flags": "bit(3)",
    "more": "bit varying(5)",
    "place": "point",
    "area": "polygon",
    "lsn": "pg_lsn",
    "breaks": "time(0)[]",
}
ARRAYS = {"ids", "moods", "tags", "docs", "breaks"}
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
    "opens": "12:30:00.000001",
    "ends": "23:59:59.999+05:30",
    "took": "P1Y2M3DT4H5M6.789S",
    "flags": "101",
    "more": "01",
    "place": "(1.5,-2)",
    "area": "((0,0),(1,1),(2,0))",
    "lsn": "16/B374D848",
    "breaks": ["10:00:00Z", None],
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
    "opens": "now",
    "flags": "1010",
    "breaks": ["10:00:00", "10:00:00.5"],
}
"""Texts that say nothing of their column's type."""
SOME = {"id", "doc", "breaks"}
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


@pytest.mark.long
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


TIME, ZONED = "time without time zone", "time with time zone"
TELLING = {
    TIME: ["00:00", "24:00:00", "12:30:59.5", "12:30:59Z"],
    "time(2) without time zone": ["12:30:59.05"],
    ZONED: ["12:30:00+02", "12:30:00Z", "12:30:00.000001-0330", "24:00:00-12:00"],
    "interval": ["P1Y", "PT36H", "P-1DT-2H", "PT0.000001S", "P2W", "2 hours", "90 mins 5 secs",
                 "1 year 2 mons 3 days 04:05:06.7", "00:00:01"],
    "bit(3)": ["010"],
    "bit(1)": ["1"],
    "bit varying(3)": ["", "01"],
    "bit varying": ["0101"],
}  # fmt: skip
"""Texts by the type, as Postgres spells it, whose values they are."""
CHANGED = {
    TIME: ["now", "allballs", "12:30:00+02", "2024-01-01 12:30:00", "12:30:60", "12:30 PM",
           "12:30:00.1234567", "25:00:00", "24:00:01", "12", " 12:30", ""],
    "time(2) without time zone": ["12:30:00.125"],
    ZONED: ["12:30:00", "now", "12:30:00 CET", "2024-01-01 12:30:00+02"],
    "interval": ["PT0.0000001S", "P0.5M", "1.5 days", "-1 day 02:00:00", "infinity", "5", "P", "PT",
                 "", "1 fortnight", "1 day ago", "@ 1 day"],
    "bit(3)": ["01", "0101", "x5", "B101", "012"],
    "bit(1)": ["", "10"],
    "bit varying(3)": ["0101", "x5"],
    "bit varying": ["b1", " "],
}  # fmt: skip
"""Texts that a cast alone takes for other values, or refuses."""


@pytest.fixture
def connection(warehouse: dict[str, Any]) -> Iterator[Connection]:
    session = open_session(warehouse)
    yield session
    session.close()


@pytest.mark.parametrize("kind", TELLING)
def test_a_text_is_its_value_or_is_refused_and_never_changed(
    connection: Connection, kind: str
) -> None:
    """B8: what a cast alone would round, cut or take by the clock."""

    def made(text: str | None, of: str = kind) -> Any:
        """The value as a text, and whether it is the one that Postgres reads."""
        value = made_of(sql.SQL("given.t"), of)
        assert value
        array = of.endswith("[]")
        with connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL timezone = 'Asia/Tokyo'; SET LOCAL intervalstyle = iso_8601")
            kind_of_text = "text[]" if array else "text"
            cursor.execute(f"CREATE TEMP TABLE given (t {kind_of_text}) ON COMMIT DROP")
            cursor.execute("INSERT INTO given VALUES (%s)", [[text] if array else text])
            query = sql.SQL("SELECT ({value})::text, ({value}) = t::{kind} FROM given")
            cursor.execute(query.format(value=value, kind=sql.SQL(of)))
            return cursor.fetchone()

    for text in TELLING[kind]:
        assert made(text)[1], text
        assert made(text, f"{kind}[]")[1], text
    assert made(None) == (None, None)
    for text in CHANGED[kind]:
        for of in (kind, f"{kind}[]"):
            with pytest.raises(psycopg2.DataError):
                made(text, of)
