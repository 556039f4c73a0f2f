"""B8, B12: an update that changes the key deletes the old one, where its event tells it."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.commands import PIPELINE, answer, refusal, settle_in, write_pipeline
from tests.support.produce import produce
from tests.support.world import World

DECODE = {
    "envelope": "debezium",
    "schema": {"id": "bigint", "email": "string", "name": "string"},
}
UPSERT = {"table": "public.records", "mode": "upsert", "key": ["email"], "deleted": "deleted"}


def row(number: int, email: str | None, name: str = "Ann") -> dict[str, Any]:
    return {"id": number, "email": email, "name": name}


def event(op: str, before: Any = None, after: Any = None, lsn: int | None = None) -> bytes:
    told = {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}
    return json.dumps(told).encode()


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A table that is upserted by a column that is not the source's key."""
    settle_in(world, tmp_path, monkeypatch)
    write_pipeline(world, decode=DECODE, target=UPSERT)
    return world


def run(world: World, *events: bytes, partition: int = 0) -> None:
    produce(world.kafka, world.topic, events, partition)
    answer("run", PIPELINE)


def emails(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT id, email FROM public.records ORDER BY 1, 2")


def counts(world: World) -> list[tuple[Any, ...]]:
    """Of each batch: rows staged, upserted, deleted, superseded, refused."""
    return world.sql(
        "SELECT rows_contributed, rows_moved, rows_deleted, rows_superseded, rows_refused"
        " FROM tidemark.batch_targets ORDER BY seq"
    )


def test_a_changed_key_leaves_no_row_of_the_old_one(project: World) -> None:
    """B8, B12: over batches and within one; counted, proven, and put back by a rewind."""
    run(project, event("c", after=row(1, "old@x")), event("c", after=row(2, "two@x")))
    first = emails(project)
    run(project, event("u", row(1, "old@x"), row(1, "new@x")))
    assert emails(project) == [(1, "new@x"), (2, "two@x")]
    run(
        project,
        event("u", row(2, "two@x"), row(2, "tmp@x")),
        event("u", row(1, "new@x"), row(1, "two@x")),
        event("u", row(2, "tmp@x"), row(2, "new@x")),
        event("u", row(2, "new@x"), row(2, "new@x", "Bob")),
    )
    assert emails(project) == [(1, "two@x"), (2, "new@x")]
    run(project, event("d", row(1, "two@x")))
    assert emails(project) == [(2, "new@x")]
    assert counts(project) == [
        (2, 2, 0, 0, 0),
        (2, 1, 1, 0, 0),
        (7, 2, 1, 4, 0),
        (1, 0, 1, 0, 0),
    ]
    assert answer("verify", PIPELINE)["clean"]
    answer("reset", project.region, "--to", "1", "--apply")
    assert emails(project) == first
    answer("run", PIPELINE)
    assert emails(project) == [(2, "new@x")]
    assert answer("verify", PIPELINE)["clean"]


def test_the_order_of_the_new_row_decides_over_the_old_key(project: World) -> None:
    """B8, B12: over partitions; what took the old key later keeps it, an older row does not."""
    schema = DECODE["schema"] | {"at": "bigint"}  # type: ignore[operator]
    target = UPSERT | {"order_by": "at"}
    write_pipeline(project, decode=DECODE | {"schema": schema}, target=target)

    def at(number: int, email: str, place: int) -> dict[str, Any]:
        return row(number, email) | {"at": place}

    run(
        project, event("c", after=at(1, "a@x", 10)), event("c", after=at(2, "b@x", 10)), partition=1
    )
    # told before by the other partition, and later in the order
    run(project, event("c", after=at(3, "a@x", 30)))
    run(
        project,
        event("u", at(1, "a@x", 10), at(1, "c@x", 20)),
        event("u", at(2, "b@x", 10), at(2, "d@x", 20)),
        partition=1,
    )
    assert emails(project) == [(1, "c@x"), (2, "d@x"), (3, "a@x")]
    run(project, event("c", after=at(9, "b@x", 15)))
    assert emails(project) == [(1, "c@x"), (2, "d@x"), (3, "a@x")]
    assert answer("verify", PIPELINE)["clean"]


@pytest.mark.long
def test_an_old_key_of_another_partition_ends_the_run(project: World) -> None:
    """B8, B12: without an order nothing says whether its row is older."""
    run(project, event("c", after=row(1, "old@x")), partition=1)
    produce(project.kafka, project.topic, [event("u", row(1, "old@x"), row(1, "new@x"))], 0)
    assert refusal("run", PIPELINE, exits=11).case == "LastRowUnknown"
    assert emails(project) == [(1, "old@x")]


@pytest.mark.long
def test_a_refused_row_leaves_the_row_of_its_old_key(project: World) -> None:
    """B8, B12: a record is both, the deletion and the row, or a dead letter."""
    write_pipeline(
        project,
        decode=DECODE,
        target=UPSERT | {"on_refused": "dead_letter"},
        dead_letters={"max_ratio": 1},
    )
    run(project, event("c", after=row(1, "old@x")), event("c", after=row(2, "two@x")))
    project.sql("ALTER TABLE public.records ADD CHECK (name <> 'bad')")
    run(project, event("u", row(1, "old@x"), row(1, "new@x", "bad")))
    assert emails(project) == [(1, "old@x"), (2, "two@x")]
    [(reason, kept)] = project.sql("SELECT reason, refused_rows FROM tidemark.dead_letters")
    assert reason == "TARGET_REFUSED"
    assert {one["email"]: one["deleted"] for one in kept} == {"new@x": False, "old@x": True}
    # a foreign key refuses the deletion
    project.sql(
        "CREATE TABLE public.visits (email text REFERENCES public.records);"
        " INSERT INTO public.visits VALUES ('two@x')"
    )
    run(project, event("u", row(2, "two@x"), row(2, "new@x")))
    assert emails(project) == [(1, "old@x"), (2, "two@x")]
    assert counts(project)[1:] == [(2, 0, 0, 0, 2), (2, 0, 0, 0, 2)]
    assert answer("verify", PIPELINE)["clean"]


@pytest.mark.long
@pytest.mark.parametrize(
    "before", [{"id": 1}, row(1, None), row(1, "__debezium_unavailable_value")]
)
def test_an_old_key_that_is_not_told_is_not_guessed(project: World, before: Any) -> None:
    """B8, B12, B20: a before that is cut, or has a placeholder."""
    write_pipeline(project, decode=DECODE, target=UPSERT, dead_letters={"max_ratio": 1})
    run(project, event("c", after=row(1, "old@x")), event("u", before, row(1, "new@x")))
    assert emails(project) == [(1, "old@x")]
    assert project.sql("SELECT reason FROM tidemark.dead_letters") == [("OLD_KEY_UNKNOWN",)]


@pytest.mark.long
def test_a_deletion_that_does_not_tell_its_key_ends_the_run(project: World) -> None:
    """B8, B12: it is no deletion of nothing."""
    run(project, event("c", after=row(1, "old@x")))
    produce(project.kafka, project.topic, [event("d", {"id": 1})], 0)
    assert refusal("run", PIPELINE, exits=11).case == "RowUnplaced"
    assert emails(project) == [(1, "old@x")]


def test_a_deletion_of_what_the_source_did_not_send_is_a_dead_letter(project: World) -> None:
    """B8, B12: an empty text, where a column is NOT NULL; a key may be empty all the same."""
    write_pipeline(project, decode=DECODE, target=UPSERT, dead_letters={"max_ratio": 1})
    run(project, event("c", after=row(1, "old@x")), event("c", after=row(0, "", "Bob")))
    producer = Producer({"bootstrap.servers": project.kafka})
    for before in (row(1, "", ""), row(0, "", "Bob")):
        producer.produce(project.topic, event("d", before), json.dumps({"id": before["id"]}), 0)
    assert producer.flush(120) == 0
    answer("run", PIPELINE)
    assert emails(project) == [(1, "old@x")]
    assert project.sql('SELECT "offset", reason FROM tidemark.dead_letters') == [
        (2, "OLD_KEY_UNKNOWN")
    ]
