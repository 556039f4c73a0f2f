"""The documented ways into a region: taking over from another job, an older range beside it."""

from dataclasses import replace

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.documents import ROOT, blocks
from tests.support.world import World

from tidemark.protocol.reset import destination
from tidemark.runs.region import region_of
from tidemark.staging.errors import TargetDoesNotFit
from tidemark.verify.verify import verify
from tidemark.views import status

OLD_TABLE = """
CREATE TABLE public.records (kafka_topic text, kafka_partition int, kafka_offset bigint,
    value text)
"""
OLD_ROWS = "INSERT INTO public.records SELECT %s, 0, o, 'old' FROM generate_series(0, 4) o"
DOCUMENTED = "ADD COLUMN batch_seq bigint NOT NULL DEFAULT 0"
OLD_AND_NEW = """
SELECT count(*) FILTER (WHERE batch_seq = 0), count(*) FILTER (WHERE batch_seq > 0)
FROM public.records
"""


def commit(world: World, *offsets: int) -> None:
    """What the job before Tidemark left in the group."""
    own = {"bootstrap.servers": world.kafka, "group.id": world.pipeline.group}
    consumer = Consumer(own)
    named = [KafkaPartition(world.topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=named, asynchronous=False)
    consumer.close()


def wrong(world: World) -> int:
    """Differences that `verify` finds."""
    return verify(world.pipeline, world.connections, executor_of=world.executor_of).wrong


def counted(world: World) -> int | None:
    """Rows of the region in the target, as `status --count` shows them."""
    with region_of(world.pipeline, world.connections) as region:
        (target,) = status.in_ledger(region).targets
        return status.counted(region, target).counted


def test_a_region_goes_on_where_another_job_ended_in_that_jobs_own_table(world: World) -> None:
    """S5, S12: its rows stay as they are, and no rewind goes back before the hand-over."""
    world.produce(8)
    world.produce(3, partition=1)
    world.sql(OLD_TABLE)
    world.sql(OLD_ROWS, [world.topic])
    commit(world, 5, 0)
    world.settings = {"kafka": {"start": "committed"}}
    world.open("refused")
    with pytest.raises(TargetDoesNotFit) as refusal:
        world.drain("refused")
    [action] = [one for difference in refusal.value.differences for one in difference.actions]
    assert action.replace('"', "") == DOCUMENTED
    world.sql(f"ALTER TABLE {refusal.value.target} {action}")
    world.sql(documented("CREATE INDEX", world, world))
    world.run("first")
    assert world.sql(OLD_AND_NEW) == [(5, 6)]
    assert world.rows() == [(0, offset) for offset in range(8)] + [
        (1, offset) for offset in range(3)
    ]
    assert wrong(world) == 0
    assert counted(world) == 6
    world.reset(to=destination("initial"))
    assert world.sql(OLD_AND_NEW) == [(5, 0)]
    world.run("again")
    assert world.sql(OLD_AND_NEW) == [(5, 6)]


@pytest.mark.long
def test_rows_beyond_a_connectors_offsets_are_removed_and_come_again(world: World) -> None:
    """S5: a sink that died after it wrote rows, and before it committed their offsets."""
    world.produce(8)
    columns = "__connect_topic text, __connect_partition int, __connect_offset bigint"
    world.sql(f"CREATE TABLE public.records ({columns}, value text, kafka_topic text,"
              " kafka_partition int, kafka_offset bigint, batch_seq bigint DEFAULT 0)")  # fmt: skip
    world.sql("INSERT INTO public.records SELECT %s, 0, o, 'old' FROM generate_series(0, 6) o",
              [world.topic])  # fmt: skip
    commit(world, 5, 0)
    world.sql("CREATE TABLE group_offsets (topic text, partition int, next_offset bigint)")
    world.sql("INSERT INTO group_offsets VALUES (%s, 0, 5), (%s, 1, 0)", [world.topic] * 2)
    world.sql(documented("DELETE FROM public.flights", world, world))
    world.settings = {"kafka": {"start": "committed"}}
    world.run()
    assert world.sql(OLD_AND_NEW) == [(5, 3)]
    places = "SELECT coalesce(__connect_offset, kafka_offset) FROM public.records ORDER BY 1"
    assert [offset for (offset,) in world.sql(places)] == list(range(8))
    assert wrong(world) == 0


def documented(fragment: str, live: World, older: World) -> str:
    """The document's SQL with this fragment, for these regions and their tables."""
    [text] = [
        block.text
        for block in blocks(ROOT / "docs" / "moving-in.md")
        if block.language == "sql" and fragment in block.text
    ]
    names = {
        "public.flights_older": "public.older",
        "public.flights_all": "public.whole",
        "public.flights": "public.records",
        "'flights_older'": f"'{older.region}'",
        "'flights'": f"'{live.region}'",
    }
    for name, own in names.items():
        text = text.replace(name, own)
    return text


@pytest.mark.long
def test_an_older_range_is_loaded_beside_live_data_and_shown_as_one(world: World) -> None:
    """The second region reads past the first one's beginning; the view shows each record once."""
    world.produce(6)
    world.settings = {"kafka": {"start": "end"}}
    world.run("live, nothing yet")
    world.produce(4, start=6)
    settings = {
        "kafka": {"start": "beginning", "group": f"{world.region}_older"},
        "target": {"table": "public.older"},
    }
    older = replace(world, region=f"{world.region}_older", settings=settings, executors=[])
    enough = documented("AS loaded_up_to", world, older)
    older.run("older", max_records=4, max_batches=1)
    assert world.sql(enough) == [(world.topic, 0, 4, 6)]
    older.run("older on")
    assert world.sql(enough) == []
    world.run("live")
    assert (wrong(world), wrong(older)) == (0, 0)
    world.sql(documented("CREATE VIEW", world, older))
    whole = "SELECT kafka_offset FROM public.whole ORDER BY 1"
    assert [offset for (offset,) in world.sql(whole)] == list(range(10))
