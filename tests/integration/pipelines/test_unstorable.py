"""Records that no table of Postgres can hold, in a database of one's own choice."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.support.databases import administer
from tests.support.produce import produce
from tests.support.world import World

from tidemark.check._postgres import postgres_findings
from tidemark.check.findings import State
from tidemark.staging._row_errors import ColumnsTooMany, ValueUnstorable
from tidemark.verify.verify import verify
from tidemark_local.stack import LocalStack

TOLD = {"target": {"on_refused": "dead_letter"}, "dead_letters": {"max_ratio": 1}}


def letters(world: World) -> list[tuple[Any, ...]]:
    return world.sql('SELECT "offset", reason FROM tidemark.dead_letters ORDER BY 1')


def wrong(world: World) -> int:
    """Batches in which verify finds a difference."""
    proof = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    assert proof.batches
    return sum(batch.wrong for batch in proof.batches)


def test_a_record_whose_row_is_too_big_stops_no_other(world: World) -> None:
    """G173, B15: it is a dead letter where the file says so, and verify finds it again."""
    names = [f"n{n}" for n in range(1100)]
    world.settings = {"decode": {"schema": dict.fromkeys(names, "bigint")}}
    rows = [{"n1": 1}, dict.fromkeys(names, 2**40), {"n2": 2}, {"n3": 3}]
    produce(world.kafka, world.topic, [json.dumps(row).encode() for row in rows])
    world.open("first")
    with pytest.raises(ValueUnstorable) as refused:
        world.drain("first")
    assert refused.value.record == f"{world.topic}[0]@1"
    assert not refused.value.retry_may_help
    world.settings |= TOLD
    world.run("second")
    assert world.sql("SELECT kafka_offset FROM public.records ORDER BY 1") == [(0,), (2,), (3,)]
    assert letters(world) == [(1, "TARGET_REFUSED")]
    [(remarks,)] = world.sql("SELECT remarks FROM tidemark.runs WHERE run_id = 'second'")
    assert ["1100" in one or "1103" in one for one in remarks] == [True]
    assert wrong(world) == 0
    world.settings["target"] = {}
    assert wrong(world) == 0


def test_more_columns_than_a_table_has_are_refused_before_anything_is_read(world: World) -> None:
    """G174"""
    names = [f"n{n}" for n in range(1700)]
    world.settings = {"decode": {"schema": dict.fromkeys(names, "bigint")}}
    world.produce(1)
    world.open("first")
    with pytest.raises(ColumnsTooMany) as refused:
        world.drain("first")
    assert refused.value.columns == 1703
    assert (refused.value.code, refused.value.retry_may_help) == ("SCHEMA_MISMATCH", False)


@pytest.fixture
def latin(stack: LocalStack, kafka: str, topic: Callable[..., str], group: str) -> Iterator[World]:
    """A region in a database that is not UTF-8."""
    name = f"latin_{uuid4().hex[:12]}"
    owner = stack.postgres.parameters("warehouse")
    made = "CREATE DATABASE {} OWNER {} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    administer(stack.postgres, made, name, owner["user"])
    yield World(kafka, owner | {"dbname": name}, topic(), group)
    administer(stack.postgres, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def test_a_database_that_lacks_letters_is_named_and_costs_their_records_alone(
    latin: World,
) -> None:
    """G173, G175, B15: by check, by the first run, and by the error."""
    [found] = [one for one in postgres_findings(latin.pipeline, latin.connections.__getitem__)
               if one.check == "Postgres encoding"]  # fmt: skip
    assert (found.state, "LATIN1" in found.fact) == (State.warned, True)
    values = [json.dumps({"value": text}, ensure_ascii=False) for text in ("é", "ł", "x")]
    produce(latin.kafka, latin.topic, [one.encode() for one in values])
    opened = latin.open("first")
    assert ["LATIN1" in one for one in opened.remarks] == [True]
    with pytest.raises(ValueUnstorable) as refused:
        latin.drain("first")
    found_by = refused.value.encoding, refused.value.column, refused.value.record
    assert found_by == ("LATIN1", "value", f"{latin.topic}[0]@1")
    latin.settings = dict(TOLD)
    latin.run("second")
    assert latin.sql("SELECT value FROM public.records ORDER BY kafka_offset") == [("é",), ("x",)]
    assert letters(latin) == [(1, "TARGET_REFUSED")]
    assert wrong(latin) == 0
    latin.produce(1)
    assert latin.open("third").remarks == ()
