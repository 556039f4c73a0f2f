"""B20: rows whose columns a table lacks in part: the rest is published, proven and said."""

from pathlib import Path
from typing import Any

import pytest
from tests.integration.pipelines.test_upserts import send
from tests.support.commands import PIPELINE, answer, settle_in
from tests.support.produce import produce
from tests.support.world import World

from tidemark.staging.errors import TargetDoesNotFit
from tidemark.verify.verify import verify

PLACE = "kafka_topic text, kafka_partition int, kafka_offset bigint, batch_seq bigint NOT NULL"
FIELDS = {"value": "string", "note": "string", "more": "int"}
TOLD = '"public"."records" lacks more, note: not published (target.on_new_column: ignore)'


def is_clean(world: World) -> bool:
    report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    return report.wrong == 0 and not any(one.unverifiable for one in report.batches)


def test_what_the_table_lacks_is_not_published(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20: `check` and a remark of the run say it; a proof leaves it out as well."""
    world.settings |= {"decode": {"schema": FIELDS}, "target": {"on_new_column": "ignore"}}
    world.sql(f"CREATE TABLE public.records (value text, mine int, {PLACE})")
    settle_in(world, tmp_path, monkeypatch)
    produce(world.kafka, world.topic, [b'{"value": "a", "note": "n", "more": 1}', b'{"value": 1}'])
    checks = {one["check"]: one for one in answer("check", PIPELINE)["checks"]}
    assert checks["output"]["fact"] == f'4 columns fit "public"."records"; {TOLD}'
    assert TOLD in answer("run", PIPELINE)["remarks"]
    assert world.sql("SELECT value, mine FROM public.records") == [("a", None)]
    assert is_clean(world)
    world.sql("ALTER TABLE public.records ADD COLUMN note text")
    produce(world.kafka, world.topic, [b'{"value": "b", "note": "m"}'])
    world.run("second")
    found = world.sql("SELECT value, note FROM public.records ORDER BY kafka_offset")
    assert found == [("a", None), ("b", "m")]
    world.reset(to=0)
    world.run("third")
    assert is_clean(world)


@pytest.mark.long
def test_keys_are_upserted_without_it(world: World) -> None:
    """B20: and put back by a rewind."""
    decode = {"schema": {"word": "string", "place": "int"}, "metadata": ["key", "tombstone"]}
    target = {"mode": "upsert", "key": ["kafka_key"], "deleted": "kafka_tombstone"}
    world.settings |= {"decode": decode, "target": target | {"on_new_column": "ignore"}}
    world.sql(f"CREATE TABLE public.records (kafka_key bytea PRIMARY KEY, word text, {PLACE})")
    send(world, [("a", "one"), ("b", "two")])
    world.run()
    send(world, [("a", "three"), ("b", None)])
    world.run("second")
    words = "SELECT word FROM public.records ORDER BY 1"
    assert world.sql(words) == [("three",)]
    assert is_clean(world)
    world.reset(to=1)
    assert world.sql(words) == [("one",), ("two",)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "table", "action"),
    [
        ({"key": ["value"]}, f"note text, {PLACE}", 'ADD COLUMN "value" text'),
        ({"key": ["note"], "order_by": "more"}, f"note text, {PLACE}", 'ADD COLUMN "more" integer'),
        ({}, "value text, batch_seq bigint", 'ADD COLUMN "kafka_offset" bigint'),
        (
            {},
            f"value text, more text, {PLACE}",
            'ALTER COLUMN "more" TYPE integer USING "more"::text::integer',
        ),
    ],
    ids=["key", "order_by", "coordinates", "another type"],
)
def test_what_can_not_be_done_without_is_refused(
    world: World, target: dict[str, Any], table: str, action: str
) -> None:
    """B20: before anything is planned, with the statement that helps."""
    mode = {"mode": "upsert"} if target else {}
    world.settings |= {"decode": {"schema": FIELDS}}
    world.settings["target"] = {**target, **mode, "on_new_column": "ignore"}
    world.sql(f"CREATE TABLE public.records ({table})")
    world.produce(1)
    world.open()
    with pytest.raises(TargetDoesNotFit) as refused:
        world.drain()
    assert action in [said for one in refused.value.differences for said in one.actions]
    assert world.sql("SELECT seq FROM tidemark.batches") == []
