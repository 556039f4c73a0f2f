"""Verify: clean after any run, and every doctored row, dead letter and ledger row is found."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from tests.support.filled import copied, filled
from tests.support.produce import good, produce
from tests.support.world import World

from tidemark.ledger.queries import LedgerQueries
from tidemark.model.batch import ONLY
from tidemark.postgres.transaction import connect
from tidemark.runs.region import Region, region_of
from tidemark.runs.retire import prune
from tidemark.verify import _multiset
from tidemark.verify.report import Difference, Kind, Report
from tidemark.verify.verify import verify
from tidemark.views.status import TargetStatus, counted
from tidemark_local.stack import LocalStack


@pytest.fixture
def proven(origin: World, stack: LocalStack) -> Iterator[World]:
    """The filled region in a copy of its database, for a test to doctor."""
    with copied(stack, template=origin.warehouse["dbname"]) as parameters:
        yield replace(origin, warehouse=parameters, settings={}, executors=[])


def verified(world: World, last: int | None = None) -> Report:
    return verify(world.pipeline, world.connections, executor_of=world.executor_of, last=last)


@pytest.mark.long
def test_no_proof_depends_on_the_settings_of_a_role(world: World) -> None:
    """B5: refused rows are kept, and hashed, in texts of their own."""
    target = {"table": "public.records", "on_refused": "dead_letter"}
    world.settings = {"target": target, "decode": {"metadata": ["timestamp"]}}
    world.sql(
        "CREATE TABLE public.records (value text CHECK (value <> 'refused'), kafka_topic text,"
        " kafka_partition int, kafka_offset bigint, kafka_timestamp timestamptz,"
        " batch_seq bigint NOT NULL)"
    )
    produce(world.kafka, world.topic, [good("refused"), good("a row")], 0)
    of_all = f"ALTER DATABASE {world.warehouse['dbname']} SET timezone = "
    world.sql(f"{of_all}'Asia/Tokyo'")
    world.run()
    assert len(world.dead_letters()) == 1
    world.sql(f"{of_all}'America/Lima'")
    assert verified(world).wrong == 0


def differences(report: Report) -> list[Difference]:
    return [*report.differences, *(one for batch in report.batches for one in batch.differences)]


def found(world: World) -> list[tuple[Kind, str, str]]:
    return [(one.kind, one.what, one.where) for one in differences(verified(world))]


def test_a_clean_region_is_equal_batch_by_batch(proven: World) -> None:
    """B5."""
    report = verified(proven)
    assert [batch.verdict for batch in report.batches] == ["equal"] * 3
    assert sum(batch.rows for batch in report.batches) == len(proven.rows()) == 17
    assert sum(batch.dead_letters for batch in report.batches) == 2
    assert not report.differences
    assert not report.notes


def pruned(world: World) -> None:
    """Only the newest checkpoint is retained."""
    ledger = world.ledger()
    prune(ledger, world.region, ledger.epoch(world.region) or 0, retain=1)


def rewound(world: World) -> None:
    """What the last transaction of a rewind to the first checkpoint does."""
    ledger = world.ledger()
    with ledger.deciding(world.region, ledger.epoch(world.region) or 0, "rewind") as tx:
        tx.cursor.execute("DELETE FROM public.records WHERE batch_seq > 1")
        tx.rewind(1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name", "change", "left_out"),
    [
        (Region, "state", pruned, ""),
        (Region, "state", rewound, ""),
        (LedgerQueries, "checkpoints", pruned, "1, 2"),
        (LedgerQueries, "checkpoints", rewound, "2, 3"),
        (LedgerQueries, "published_spans", pruned, "2"),  # 1 was read before, and is compared
        (LedgerQueries, "published_spans", rewound, "2, 3"),
    ],
)
def test_what_is_pruned_or_rewound_between_two_looks_is_no_difference(
    proven: World,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    change: Callable[[World], None],
    left_out: str,
) -> None:
    """Each look is a snapshot of its own, and the target of a large region is read for long."""
    method, changed = getattr(kind, name), list[str]()

    def look_and_change(*args: object) -> object:
        found = method(*args)
        if not changed:
            changed.append(name)
            change(proven)
        return found

    monkeypatch.setattr(kind, name, look_and_change)
    report = verified(proven)
    assert (changed, report.wrong, report.differences) == ([name], 0, ())
    notes = [note for note in report.notes if note.startswith("not compared, pruned")]
    text = f"not compared, pruned or rewound meanwhile: batches {left_out}"
    assert notes == ([text] if left_out else [])


@pytest.mark.long
def test_rows_of_pruned_checkpoints_are_counted_and_named(proven: World) -> None:
    """S18: the ledger no longer knows which records they came from."""
    ledger = proven.ledger()
    [(epoch, head)] = proven.sql("SELECT epoch, head_seq FROM tidemark.regions")
    prune(ledger, proven.region, epoch, retain=1)
    report = verified(proven)
    assert [batch.seq for batch in report.batches] == [head]
    assert report.wrong == 0
    left = len(proven.rows()) - report.batches[0].rows
    assert (
        f'{left} rows of "public"."records" belong to checkpoints before {head}' in report.notes[0]
    )


def test_the_last_batches_can_be_verified_alone(proven: World) -> None:
    assert [batch.seq for batch in verified(proven, last=2).batches] == [2, 3]


@pytest.mark.long
def test_rows_that_are_altered_count_once_however_many_they_are(
    proven: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: also those beyond the ones that are looked at one by one."""
    monkeypatch.setattr(_multiset, "SAMPLE", 3)
    proven.sql("UPDATE public.records SET value = 'other'")
    proven.sql("DELETE FROM public.records WHERE kafka_partition = 1 AND kafka_offset = 6")
    report = verified(proven)
    lost = [one for one in differences(report) if one.kind is Kind.miscounted]
    assert report.wrong == len(proven.rows()) + 1 + len(lost)


def test_a_lost_row_is_found(proven: World) -> None:
    proven.sql("DELETE FROM public.records WHERE kafka_partition = 0 AND kafka_offset = 4")
    where = f"{proven.topic}[0]@4"
    assert (Kind.lost, "row", where) in found(proven)


def test_a_doubled_row_is_found(proven: World) -> None:
    proven.sql(
        "INSERT INTO public.records SELECT * FROM public.records"
        " WHERE kafka_partition = 1 AND kafka_offset = 6"
    )
    where = f"{proven.topic}[1]@6"
    assert (Kind.doubled, "row", where) in found(proven)


def test_one_altered_byte_is_found_and_named(proven: World) -> None:
    proven.sql("UPDATE public.records SET value = 'value 3 ' WHERE value = 'value 3'")
    report = verified(proven)
    assert report.wrong == 1
    (one,) = differences(report)
    assert (one.kind, one.where) == (Kind.altered, f"{proven.topic}[0]@3")
    assert one.detail == 'value: Kafka "value 3", here "value 3 "'


def test_a_foreign_row_in_a_batch_is_found(proven: World) -> None:
    """B13."""
    proven.sql("INSERT INTO public.records VALUES ('x', 'elsewhere', 7, 1, 2)")
    assert (Kind.foreign, "row", "elsewhere[7]@1") in found(proven)


@pytest.mark.long
@pytest.mark.parametrize("seq", ["999", "0", "-1"])
def test_rows_of_no_published_batch_are_found(proven: World, seq: str) -> None:
    proven.sql(
        f"INSERT INTO public.records SELECT 'x', 'x', 0, n, {seq} FROM generate_series(1, 12) n"
    )
    report = verified(proven, last=1)
    assert report.wrong == 12
    assert {one.kind for one in report.differences} == {Kind.foreign}
    assert len(report.differences) == 10


@pytest.mark.long
def test_rows_from_before_tidemark_are_only_noted(proven: World) -> None:
    proven.sql("ALTER TABLE public.records ALTER batch_seq SET DEFAULT 0")
    proven.sql("INSERT INTO public.records (value) VALUES ('older')")
    report = verified(proven)
    assert report.wrong == 0
    assert report.notes == (
        '1 rows of "public"."records" belong to no batch (batch_seq 0, its default)',
    )


def test_a_changed_dead_letter_is_found(proven: World) -> None:
    proven.sql("UPDATE tidemark.dead_letters SET value = 'baD' WHERE partition = 0")
    (one,) = differences(verified(proven))
    assert (one.kind, one.what, one.where) == (Kind.altered, "dead letter", f"{proven.topic}[0]@9")


def test_a_cut_ledger_row_is_found(proven: World) -> None:
    proven.sql("DELETE FROM tidemark.dead_letters")
    proven.sql("DELETE FROM tidemark.batches WHERE seq = 1")
    kinds = {one.kind for one in verified(proven).differences}
    assert kinds == {Kind.foreign, Kind.broken}


@pytest.mark.long
def test_a_cut_span_is_found(proven: World) -> None:
    proven.sql("DELETE FROM tidemark.spans WHERE seq = 2 AND partition = 0")
    report = verified(proven)
    (chain,) = report.differences
    assert chain.kind is Kind.broken
    assert "gap before batch 3" in chain.detail
    assert Kind.miscounted in {one.kind for one in report.batches[1].differences}


def test_a_moved_next_offset_is_found(proven: World) -> None:
    proven.sql("UPDATE tidemark.partitions SET next_offset = next_offset + 1 WHERE partition = 0")
    (chain,) = verified(proven).differences
    assert chain.detail.endswith("the spans end at 13, the ledger's next offset is 14")


@pytest.mark.long
def test_a_miscounted_span_is_found(proven: World) -> None:
    proven.sql("UPDATE tidemark.spans SET records = records + 1 WHERE seq = 1 AND partition = 0")
    proven.sql("UPDATE tidemark.batches SET records = records + 1 WHERE seq = 1")
    (one,) = differences(verified(proven))
    assert one.kind is Kind.miscounted
    assert "Kafka now has" in one.detail


@pytest.mark.long
def test_a_lost_target_is_found(proven: World) -> None:
    proven.sql("DROP TABLE public.records")
    report = verified(proven)
    assert report.wrong == 3
    assert report.notes == ('"public"."records" does not exist',)


@pytest.mark.long
def test_ranges_that_retention_took_are_named_and_counted(world: World, admin: AdminClient) -> None:
    filled(world)
    partition = KafkaPartition(world.topic, 0, 3)
    admin.delete_records([partition])[partition].result(120)
    report = verified(world)
    assert [batch.verdict for batch in report.batches] == ["not verifiable", "equal", "equal"]
    assert report.wrong == 0
    (named,) = report.batches[0].unverifiable
    assert named.startswith(f"{world.topic}[0]@[0, 3): below the log start 3")
    world.sql("DELETE FROM public.records WHERE kafka_partition = 0 AND kafka_offset = 1")
    assert {one.kind for one in differences(verified(world))} == {Kind.miscounted}
    admin.delete_topics([world.topic])[world.topic].result(120)
    report = verified(world)
    assert all("the topic is gone" in batch.unverifiable[0] for batch in report.batches)


@pytest.mark.long
def test_compacted_records_are_named_and_the_rest_is_compared(
    world: World, admin: AdminClient
) -> None:
    world.produce(6)
    world.run()
    compact(admin, world.topic)
    # What compaction does to a span: the ledger counted more than Kafka now has now.
    world.sql("UPDATE tidemark.spans SET records = 8")
    world.sql("UPDATE tidemark.batches SET records = 8, rows_moved = 8, rows_contributed = 8")
    world.sql("UPDATE tidemark.batch_targets SET rows_moved = 8, rows_contributed = 8")
    world.sql("INSERT INTO public.records SELECT 'gone', 'x', 0, n, 1 FROM generate_series(8, 9) n")
    (batch,) = verified(world).batches
    assert batch.verdict == "not verifiable", batch.differences
    assert "2 of 8 records were compacted away" in batch.unverifiable[0]
    world.sql("UPDATE public.records SET value = 'x' WHERE kafka_offset = 2")
    assert [one.kind for one in differences(verified(world))] == [Kind.altered]


def compact(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(120)


@pytest.mark.long
def test_nothing_but_scratch_is_written_and_it_is_gone_afterwards(proven: World) -> None:
    before = proven.sql("SELECT count(*), sum(epoch) FROM tidemark.runs")
    members = proven.sql("SELECT count(*) FROM tidemark.members")
    verified(proven)
    assert proven.sql("SELECT count(*), sum(epoch) FROM tidemark.runs") == before
    assert proven.sql("SELECT count(*) FROM tidemark.members") == members
    assert tables_of(proven) == []


@pytest.mark.long
def test_abandoned_scratch_is_dropped_and_scratch_in_use_is_not(proven: World) -> None:
    abandoned, in_use = "#verify_00000000_1_rows", "#verify_11111111_1_rows"
    for name in (abandoned, in_use):
        proven.sql(f'CREATE TABLE tidemark_staging."{name}" ()')
    with closing(connect(proven.warehouse).raw_connection()) as other:
        other.cursor().execute("SELECT pg_advisory_lock(hashtextextended('#verify_11111111', 0))")
        verified(proven)
        assert tables_of(proven) == [in_use]
    verified(proven)


def tables_of(world: World) -> list[str]:
    return [
        name
        for (name,) in world.sql(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'tidemark_staging' ORDER BY 1"
        )
    ]


@pytest.mark.long
def test_a_percent_sign_in_a_name_means_nothing(world: World) -> None:
    """psycopg2 takes it for a placeholder where a statement has parameters."""
    world.settings = {
        "decode": {"format": "json", "schema": {"50%s": "string"}},
        "target": {"table": 'public."100% sure"'},
    }
    produce(world.kafka, world.topic, [b'{"50%s": "a"}', b"bad"])
    world.run()
    world.sql("""INSERT INTO public."100% sure" ("50%s", batch_seq) VALUES ('foreign', 9)""")
    report = verified(world)
    assert [one.kind for one in report.differences] == [Kind.foreign]
    assert [(batch.verdict, batch.rows) for batch in report.batches] == [("equal", 1)]
    with region_of(world.pipeline, world.connections) as region:
        told = TargetStatus(ONLY, world.pipeline.into, 1, 0)
        assert counted(region, told).counted == 2
    world.sql("""DELETE FROM public."100% sure" WHERE batch_seq = 9""")
    world.reset(to=0)
    assert world.sql('SELECT count(*) FROM public."100% sure"') == [(0,)]
