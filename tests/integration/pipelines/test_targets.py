"""A region with two targets, from topic to tables: runs, rewinds, proofs, status."""

import json

import pytest
from tests.support.produce import produce
from tests.support.two_tables import NEWEST, NUMBERS, SETTINGS, TARGETS, newest
from tests.support.world import World, staging

from tidemark.errors import Refused
from tidemark.runs.region import region_of
from tidemark.staging.errors import RowRefused
from tidemark.verify.report import Kind, Report
from tidemark.verify.verify import verify
from tidemark.views.status import counted, in_ledger


@pytest.fixture
def two(world: World) -> World:
    """A region whose records become rows of two tables."""
    world.settings |= SETTINGS
    return world


def send(two: World, count: int, partition: int = 0, start: int = 0) -> None:
    """Numbers are in the topic."""
    numbers = [json.dumps({"n": n}).encode() for n in range(start, start + count)]
    produce(two.kafka, two.topic, numbers, partition)


def tables(two: World) -> tuple[list[tuple[int, int, int]], ...]:
    """Partition, offset and number of each row, in both tables."""
    columns = "SELECT kafka_partition, kafka_offset, n FROM public."
    return tuple(two.sql(f"{columns}{name} ORDER BY 1, 2") for name in (NUMBERS, NEWEST))


def proof(two: World) -> Report:
    return verify(two.pipeline, two.connections, executor_of=two.executor_of)


def is_well(two: World) -> bool:
    """The proof finds every batch equal, and the counts of ledger and tables agree."""
    report = proof(two)
    with region_of(two.pipeline, two.connections) as region:
        drifts = [counted(region, one).drift for one in in_ledger(region).targets]
    return report.wrong == 0 and not report.unverifiable and drifts == [0, 0]


def filled(two: World) -> World:
    """Five batches or more, in two partitions."""
    send(two, 20)
    send(two, 9, 1)
    two.run(max_records=6)
    return two


def test_both_tables_have_every_record(two: World) -> None:
    """B8: a history and the newest rows, of the same batches; proven."""
    numbers, last = tables(filled(two))
    assert numbers == [(0, n, n) for n in range(20)] + [(1, n, n) for n in range(9)]
    assert last == newest(numbers)
    assert len(proof(two).batches) >= 5
    assert is_well(two)
    assert staging(two) == []


def test_a_rewind_takes_both_tables_back(two: World) -> None:
    """B4, B8: to each checkpoint, and on again to the same tables."""
    end = tables(filled(two))
    for to in (4, 2, 0):
        report = two.reset(to=to)
        assert report.removed is not None
        assert sum(report.removed.by_target.values()) == report.removed.rows
        assert is_well(two), f"after the rewind to {to}"
        two.run(f"after {to}", max_records=7)
        assert tables(two) == end
        assert is_well(two)


@pytest.mark.long
@pytest.mark.parametrize(
    ("doctor", "kind", "what", "name"),
    [
        ("DELETE FROM public.numbers WHERE n = 8", Kind.lost, "row", NUMBERS),
        ("UPDATE public.newest SET n = -1 WHERE n = 19", Kind.altered, "row", NEWEST),
        ("UPDATE public.numbers SET n = -1 WHERE n = 8", Kind.altered, "row", NUMBERS),
        ("DELETE FROM public.newest WHERE n = 19", Kind.lost, "row", NEWEST),
        (
            "INSERT INTO public.newest (k, kafka_partition, batch_seq)"
            " SELECT 99, 0, batch_seq FROM public.newest WHERE n = 19",
            Kind.foreign,
            "row",
            NEWEST,
        ),
        ("DELETE FROM tidemark.deleted_keys", Kind.lost, "deleted key", NEWEST),
    ],
)
def test_a_doctored_row_is_found_in_each_table(
    two: World, doctor: str, kind: Kind, what: str, name: str
) -> None:
    """B8: and named with its table."""
    filled(two).sql(doctor)
    found = [one for batch in proof(two).batches for one in batch.differences]
    assert (kind, f'{what} of "public"."{name}"') in {(one.kind, one.what) for one in found}


@pytest.mark.long
def test_status_counts_each_table_by_itself(two: World) -> None:
    """B8: a row too many in one does not hide one too few in the other."""
    filled(two)
    two.sql(f"DELETE FROM public.{NUMBERS} WHERE n = 8 AND kafka_partition = 0")
    two.sql(f"INSERT INTO public.{NEWEST} (k, kafka_partition, batch_seq) VALUES (99, 0, 1)")
    with region_of(two.pipeline, two.connections) as region:
        found = {one.name: counted(region, one) for one in in_ledger(region).targets}
    assert {name: one.drift for name, one in found.items()} == {NUMBERS: -1, NEWEST: 1}
    assert found[NUMBERS].ledger == 29
    with pytest.raises(Refused):
        two.reset(to=0)


def test_one_table_that_refuses_stops_the_other(two: World) -> None:
    """B8: nothing of the batch is in any table, and the offsets stay."""
    filled(two)
    before, offsets = tables(two), two.ledger_offsets()
    two.sql(f"ALTER TABLE public.{NUMBERS} ADD CHECK (n < 21)")
    send(two, 5, start=20)
    two.open("refused")
    with pytest.raises(RowRefused) as refused:
        two.drain("refused")
    assert [str(one) for one in refused.value.targets] == ['"public"."numbers"']
    assert (tables(two), two.ledger_offsets()) == (before, offsets)


@pytest.mark.long
def test_what_one_table_refuses_is_in_none_and_proven(two: World) -> None:
    """B5, B8, B15: the other one's key has its row before; a kept row that is altered is found."""
    keep = {"on_refused": "dead_letter"}
    two.settings["targets"] = {name: one | keep for name, one in TARGETS.items()}
    send(two, 1)
    two.run()
    two.sql(f"ALTER TABLE public.{NUMBERS} ADD CHECK (n <> 19)")
    two.sql(f"ALTER TABLE public.{NEWEST} ADD CHECK (n <> 11)")
    send(two, 19, start=1)
    send(two, 9, 1)
    two.run("next", max_records=6)
    numbers, last = tables(two)
    assert two.dead_letters() == [(0, 11), (0, 19)]
    taken = [n for n in range(20) if n not in (11, 19)]
    assert numbers == [(0, n, n) for n in taken] + [(1, n, n) for n in range(9)]
    assert last == newest(numbers)
    assert is_well(two)
    head = max(seq for (seq,) in two.sql("SELECT seq FROM tidemark.batches"))
    two.reset(to=head - 2)
    assert is_well(two)
    two.run("again", max_records=7)
    assert (tables(two), is_well(two)) == ((numbers, last), True)
    for doctor in (f"refused_rows - '{NEWEST}'", "refused_rows || '{\"other\": []}'", "'[]'"):
        two.sql(f"UPDATE tidemark.dead_letters SET refused_rows = {doctor}")
        assert proof(two).wrong
