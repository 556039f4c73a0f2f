"""Audit: a table that another tool fills is compared with its topic; nothing is written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.support.filled import copied
from tests.support.produce import open_transaction, produce, produce_transaction
from tests.support.region import ask
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin.errors import GroupWithoutOffsets
from tidemark.errors import TidemarkError
from tidemark.model.offsets import TopicPartition
from tidemark.postgres.transaction import snapshot
from tidemark.spark.session import session
from tidemark.verify import errors
from tidemark.verify._bounds import facts_after
from tidemark.verify.audit import AuditQuestion, audit
from tidemark.verify.report import AuditReport, ToldBy
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack


@pytest.fixture
def warehouse(stack: LocalStack) -> Iterator[dict[str, Any]]:
    """A database without a ledger."""
    with copied(stack) as parameters:
        yield parameters


def no_spark() -> Any:
    raise AssertionError("no transform of DataFrames is here")


def audited(world: World, **question: Any) -> AuditReport:
    return audit(world.pipeline, world.connections, AuditQuestion(**question), spark=no_spark)


def named(report: AuditReport) -> list[tuple[str, str]]:
    """Each difference by its kind, and by partition and offset of its record."""
    return sorted((str(one.kind), one.where[one.where.find("[") :]) for one in report.differences)


def counts(report: AuditReport) -> dict[str, int]:
    kinds = ("lost", "doubled", "altered", "stale", "foreign")
    return {kind: count for kind in kinds if (count := getattr(report, kind))}


def commit(world: World, group: str, **offsets: int) -> None:
    """Another tool's group stands at these offsets of partitions p0 and p1."""
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": group})
    places = [KafkaPartition(world.topic, int(name[1:]), at) for name, at in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def filled(world: World, columns: str, values: str = "", **settings: Any) -> World:
    """A table of 20 records, ten in each of two partitions, that a tool has filled."""
    world.settings |= settings
    world.produce(10, 0)
    world.produce(10, 1, start=10)
    world.sql(f"CREATE TABLE public.records (value text{columns})")
    world.sql(
        f"INSERT INTO public.records SELECT 'value ' || n{values or ', %s, n / 10, n %% 10'}"
        " FROM generate_series(0, 19) AS n",
        [] if values else [world.topic],
    )
    return world


@pytest.fixture
def connect(world: World) -> World:
    """As a sink of Kafka Connect with pk.mode=kafka fills it."""
    coordinates = ", __connect_topic text, __connect_partition int, __connect_offset bigint"
    return filled(world, coordinates)


@pytest.fixture
def bare(world: World) -> World:
    """As write.jdbc fills it: no row tells its record."""
    return filled(world, "", " ")


@pytest.fixture
def keyed(world: World) -> World:
    """As an upserting sink fills it: ten keys, three records of each, the last one deletes `k9`."""
    world.settings = {
        "decode": {"schema": {"id": "string", "state": "int", "gone": "boolean"}},
        "target": {"mode": "upsert", "key": ["id"], "deleted": "gone"},
    }
    for state in range(3):
        send(world, [{"id": f"k{n}", "state": state} for n in range(10)])
    send(world, [{"id": "k9", "gone": True}])
    world.sql("CREATE TABLE public.records (id text, state int)")
    world.sql("INSERT INTO public.records SELECT 'k' || n, 2 FROM generate_series(0, 8) AS n")
    world.settings["kafka"] = {"topics": [world.topic]}
    commit(world, f"sink-{world.region}", p0=31, p1=0)
    return world


def send(world: World, values: Sequence[Any], partition: int = 0) -> None:
    produce(world.kafka, world.topic, [json.dumps(one).encode() for one in values], partition)


def group_of(world: World) -> str:
    return f"sink-{world.region}"


def test_a_table_that_is_whole_has_nothing_wrong(connect: World) -> None:
    """B28."""
    report = audited(connect)
    assert (report.wrong, report.rows, report.expected) == (0, 20, 20)
    assert report.told_by is ToldBy.coordinates
    assert (report.differences, report.unverifiable, report.notes) == ((), (), ())


def test_each_kind_of_difference_is_named_by_its_record(connect: World) -> None:
    """B28."""
    connect.sql("DELETE FROM public.records WHERE value = 'value 3'")
    connect.sql("INSERT INTO public.records SELECT * FROM public.records WHERE value = 'value 4'")
    connect.sql("UPDATE public.records SET value = 'another' WHERE value = 'value 15'")
    connect.sql("INSERT INTO public.records VALUES ('of none', %s, 0, 99)", [connect.topic])
    connect.sql("INSERT INTO public.records VALUES ('of none', %s, NULL, 1)", [connect.topic])
    report = audited(connect)
    assert named(report) == [
        ("altered", "[1]@5"),
        ("doubled", "[0]@4"),
        ("foreign", "[0]@99"),
        ("foreign", "[None]@1"),
        ("lost", "[0]@3"),
    ]
    assert counts(report) == {"lost": 1, "doubled": 1, "altered": 1, "foreign": 2}
    [altered] = [one for one in report.differences if one.kind == "altered"]
    assert altered.detail == 'value: Kafka "value 15", here "another"'


def test_only_so_many_of_a_kind_are_named_and_all_are_counted(connect: World) -> None:
    connect.sql("DELETE FROM public.records WHERE __connect_partition = 0 AND __connect_offset < 7")
    report = audited(connect, limit=3)
    assert (report.lost, len(report.differences)) == (7, 3)


def test_without_coordinates_whole_rows_are_compared(bare: World) -> None:
    commit(bare, group_of(bare), p0=10, p1=10)
    assert audited(bare, group=group_of(bare)).wrong == 0
    bare.sql("DELETE FROM public.records WHERE value = 'value 3'")
    bare.sql("INSERT INTO public.records VALUES ('value 4'), ('of none')")
    report = audited(bare, group=group_of(bare))
    assert report.told_by is ToldBy.row
    assert counts(report) == {"lost": 1, "doubled": 1, "foreign": 1}
    assert named(report) == [("doubled", "[0]@4"), ("foreign", ""), ("lost", "[0]@3")]


def test_without_coordinates_a_row_that_differs_in_one_column_is_altered(world: World) -> None:
    world.settings["decode"] = {"schema": {"value": "string", "more": "int"}}
    send(world, [{"value": "a", "more": 1}, {"value": "b", "more": 2}])
    world.sql("CREATE TABLE public.records (value text, more int)")
    world.sql("INSERT INTO public.records VALUES ('a', 1), ('b', 3)")
    commit(world, group_of(world), p0=2, p1=0)
    report = audited(world, group=group_of(world))
    assert (named(report), counts(report)) == ([("altered", "[0]@1")], {"altered": 1})


def test_records_that_are_alike_are_as_many_rows(world: World) -> None:
    send(world, [{"value": "same"}] * 3)
    world.sql("CREATE TABLE public.records (value text)")
    world.sql("INSERT INTO public.records VALUES ('same'), ('same')")
    commit(world, group_of(world), p0=3, p1=0)
    assert counts(audited(world, group=group_of(world))) == {"lost": 1}
    commit(world, group_of(world), p0=1)
    world.sql("INSERT INTO public.records VALUES ('same')")
    assert counts(audited(world, group=group_of(world))) == {}
    world.sql("INSERT INTO public.records VALUES ('same')")
    assert counts(audited(world, group=group_of(world))) == {"doubled": 1}


def test_of_a_key_the_last_record_counts(keyed: World) -> None:
    report = audited(keyed, group=group_of(keyed))
    assert (counts(report), report.rows) == ({}, 9)
    assert report.told_by is ToldBy.key
    keyed.sql("UPDATE public.records SET state = 1 WHERE id = 'k1'")
    keyed.sql("UPDATE public.records SET state = 7 WHERE id = 'k2'")
    keyed.sql("DELETE FROM public.records WHERE id = 'k3'")
    keyed.sql("INSERT INTO public.records VALUES ('k4', 2), ('k9', 2), ('k10', 2)")
    report = audited(keyed, group=group_of(keyed))
    assert named(report) == [
        ("altered", "[0]@22"),
        ("doubled", "[0]@24"),
        ("foreign", ""),
        ("lost", "[0]@23"),
        ("stale", "[0]@21"),
        ("stale", "[0]@30"),
    ]
    stale = [one.detail for one in report.differences if one.kind == "stale"]
    assert any(f"as {keyed.topic}[0]@11 had it; state: Kafka 2, here 1" in one for one in stale)


def test_a_key_may_be_as_any_record_behind_the_groups_offset_left_it(keyed: World) -> None:
    """The tool goes on: its rows are there before its offsets are."""
    commit(keyed, group_of(keyed), p0=15, p1=0)
    states = {"k1": 1, "k2": 1, "k3": 2, "k6": 0, "k7": 2}
    for key, state in states.items():
        keyed.sql("UPDATE public.records SET state = %s WHERE id = %s", [state, key])
    assert counts(audited(keyed, group=group_of(keyed))) == {}
    keyed.sql("UPDATE public.records SET state = 0 WHERE id = 'k2'")  # the group is past 1
    keyed.sql("DELETE FROM public.records WHERE id = 'k5'")
    keyed.sql("DELETE FROM public.records WHERE id = 'k9'")
    report = audited(keyed, group=group_of(keyed))
    assert named(report) == [("lost", "[0]@5"), ("stale", "[0]@12")]


def test_records_with_a_null_key_are_named_and_not_compared(keyed: World) -> None:
    send(keyed, [{"state": 5}])
    keyed.sql("INSERT INTO public.records VALUES (NULL, 5)")
    report = audited(keyed, group=group_of(keyed))
    assert report.wrong == 0
    assert [note for note in report.notes if "null in the key" in note]


@pytest.mark.parametrize("told", ["group", "file"])
def test_what_lies_behind_the_bound_may_be_there_or_not(connect: World, told: str) -> None:
    connect.sql(
        "DELETE FROM public.records WHERE __connect_partition = 0 AND __connect_offset IN (3, 7, 8)"
    )
    if told == "group":
        commit(connect, group_of(connect), p0=5, p1=10)
        report = audited(connect, group=group_of(connect))
    else:
        given = {TopicPartition(connect.topic, 0): 5, TopicPartition(connect.topic, 1): 10}
        report = audited(connect, until=given)
    assert named(report) == [("lost", "[0]@3")]
    assert [(one.until, one.end) for one in report.partitions] == [
        (5, 10 if told == "group" else 5),
        (10, 10),
    ]


def test_a_group_without_offsets_is_refused(connect: World) -> None:
    with pytest.raises(GroupWithoutOffsets):
        audited(connect, group="nobody")


def test_a_partition_without_an_offset_is_said(connect: World) -> None:
    commit(connect, group_of(connect), p0=10)
    connect.sql("DELETE FROM public.records WHERE __connect_partition = 1")
    report = audited(connect, group=group_of(connect))
    assert report.wrong == 0
    assert [note for note in report.notes if note.startswith(f"{connect.topic}[1]:")]


def delete_records(admin: AdminClient, topic: str, partition: int, before: int) -> None:
    """Retention takes what lies before the offset."""
    [gone] = admin.delete_records([KafkaPartition(topic, partition, before)]).values()
    gone.result(60)


def test_what_retention_took_is_not_called_foreign_or_lost(
    connect: World, admin: AdminClient
) -> None:
    delete_records(admin, connect.topic, 0, 4)
    report = audited(connect)
    assert (report.wrong, report.rows) == (0, 16)
    assert any("below 4 are gone" in one for one in report.unverifiable)
    assert report.notes == ("4 rows of records outside of what is compared",)


def test_without_coordinates_a_row_may_be_of_a_record_that_is_gone(
    bare: World, admin: AdminClient
) -> None:
    commit(bare, group_of(bare), p0=10, p1=10)
    delete_records(admin, bare.topic, 0, 4)
    bare.sql("DELETE FROM public.records WHERE value IN ('value 2', 'value 5')")
    report = audited(bare, group=group_of(bare))
    assert (counts(report), named(report)) == ({"lost": 1}, [("lost", "[0]@5")])
    assert any(one.startswith("3 rows may be of records") for one in report.unverifiable)


@pytest.mark.parametrize("told", ["coordinates", "key"])
def test_rows_whose_records_compaction_may_have_taken_are_not_foreign(
    request: pytest.FixtureRequest, admin: AdminClient, told: str
) -> None:
    world: World = request.getfixturevalue("connect" if told == "coordinates" else "keyed")
    compact(admin, world.topic)
    if told == "coordinates":
        world.sql("INSERT INTO public.records VALUES ('of none', %s, 0, 99)", [world.topic])
        report = audited(world)
    else:
        world.sql("INSERT INTO public.records VALUES ('k10', 2)")
        report = audited(world, group=group_of(world))
    assert (report.wrong, len(report.unverifiable)) == (0, 1)


def compact(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def test_a_bound_behind_the_logs_end_is_said(connect: World) -> None:
    given = {TopicPartition(connect.topic, n): 50 for n in range(2)}
    report = audited(connect, until=given)
    assert report.wrong == 0
    assert sum("truncated" in one for one in report.unverifiable) == 2


def test_rows_of_an_aborted_transaction_are_foreign(connect: World) -> None:
    """A consumer of the other tool reads uncommitted data."""
    produce_transaction(connect.kafka, connect.topic, [b'{"value": "aborted"}'], abort=True)
    connect.sql("INSERT INTO public.records VALUES ('aborted', %s, 0, 10)", [connect.topic])
    report = audited(connect)
    assert named(report) == [("foreign", "[0]@10")]


def test_rows_of_an_open_transaction_are_not_judged(connect: World) -> None:
    producer = open_transaction(connect.kafka, connect.topic)
    try:
        connect.sql("INSERT INTO public.records VALUES ('value 0', %s, 0, 10)", [connect.topic])
        report = audited(connect)
    finally:
        producer.abort_transaction(60)
    assert report.wrong == 0
    assert any("transactions are open from 10" in one for one in report.notes)


VALUES = {
    "d": "double", "n": "decimal(10,2)", "at": "timestamp", "s": "struct<a:decimal(5,2),b:string>",
    "l": "array<string>", "t": "string", "c": "string",
}  # fmt: skip
RECORD = {
    "d": 0.1, "n": 1.5, "at": "2024-03-31T02:30:00+02:00", "s": {"a": 1.50, "b": "1.50"},
    "l": ["a,b", 'q"uo\\te', None, ""], "t": "tab\t\u20ac '", "c": "ab ",
}  # fmt: skip
TABLE = (
    "CREATE TABLE public.records (d double precision, n numeric, at timestamptz, s json,"
    " l text[], t varchar(40), c character(5), kafka_topic text, kafka_partition bigint,"
    " kafka_offset numeric)"
)


@pytest.fixture
def typed(world: World) -> World:
    """Values that have several texts, as a tool of another kind spells them."""
    world.settings["decode"] = {"schema": VALUES}
    send(world, [RECORD, {**RECORD, "d": -0.0}, {"t": None, "d": 1}])
    world.sql(TABLE)
    world.sql(f"ALTER DATABASE {world.warehouse['dbname']} SET timezone = 'Asia/Tokyo'")
    world.sql(f"ALTER DATABASE {world.warehouse['dbname']} SET extra_float_digits = -3")
    row = (
        "INSERT INTO public.records VALUES (%s, 1.500, '2024-03-31 00:30:00+00',"
        """ '{ "b":"1.50", "a":1.5000}', ARRAY['a,b', 'q"uo\\te', NULL, ''],"""
        " E'tab\\t\u20ac ''', 'ab', %s, 0, %s)"
    )
    for number, d in enumerate((0.1, 0.0)):
        world.sql(row, [d, world.topic, number])
    bare = "INSERT INTO public.records (d, kafka_topic, kafka_partition, kafka_offset)"
    world.sql(f"{bare} VALUES (1, %s, 0, 2.0)", [world.topic])
    return world


def test_equal_values_are_equal_however_they_are_spelled(typed: World) -> None:
    report = audited(typed)
    assert (report.differences, report.rows) == ((), 3)


@pytest.mark.parametrize(
    "change",
    [
        "d = 0.1000000000000001", "d = 'NaN'", "n = 1.501", "at = at + interval '1 microsecond'",
        """s = '{"a": 1.5, "b": "1.5"}'""", """s = '{"a": 1.5}'""", "l = l[:3]",
        """l = ARRAY['a', 'b', 'q"uo\\te', NULL, '']""", "t = 'tab\t\u20ac ''\n'", "t = NULL",
        "c = 'abc'",
    ],
)  # fmt: skip
def test_each_other_value_is_altered(typed: World, change: str) -> None:
    typed.sql(f"UPDATE public.records SET {change} WHERE kafka_offset = 0")
    assert named(audited(typed)) == [("altered", "[0]@0")]


@pytest.mark.parametrize("kind", ["smallint", "varchar(3)"])
def test_a_row_that_the_table_cant_hold_is_none_of_its_rows(world: World, kind: str) -> None:
    """A cast would cut a text that an INSERT refuses."""
    world.settings["decode"] = {"schema": {"n": "string"}}
    send(world, [{"n": "1"}, {"n": "1\0"}, {"n": "99999"}, {"n": "2"}, {"n": "99999"}])
    world.sql(
        f"CREATE TABLE public.records (n {kind}, kafka_topic text, kafka_partition int,"
        " kafka_offset bigint)"
    )
    for value, offset in ((1, 0), (2, 3), (999, 4)):
        world.sql(
            f"INSERT INTO public.records VALUES ({value}::text::{kind}, %s, 0, %s)",
            [world.topic, offset],
        )
    report = audited(world)
    assert named(report) == [("altered", "[0]@4"), ("lost", "[0]@2")]
    assert sum(report.dead_letters.values()) == 1  # no text of Postgres holds a NUL


def test_a_row_that_the_table_cant_hold_is_lost_where_no_row_tells_its_record(
    world: World,
) -> None:
    world.settings["decode"] = {"schema": {"n": "int"}}
    send(world, [{"n": 1}, {"n": 99_999}, {"n": 99_999}])
    world.sql("CREATE TABLE public.records (n smallint)")
    world.sql("INSERT INTO public.records VALUES (1)")
    commit(world, group_of(world), p0=2, p1=0)
    assert named(audited(world, group=group_of(world))) == [("lost", "[0]@1")]


def test_columns_that_differ_are_named_with_the_option_that_leaves_them_out(
    connect: World,
) -> None:
    connect.sql("ALTER TABLE public.records ADD loaded_at timestamptz DEFAULT now()")
    with pytest.raises(errors.AuditColumnsDiffer) as refused:
        audited(connect)
    assert (refused.value.unknown, refused.value.missing) == (("loaded_at",), ())
    assert "--ignore loaded_at" in str(refused.value)
    assert audited(connect, ignored=("loaded_at",)).wrong == 0
    connect.sql("ALTER TABLE public.records DROP value")
    with pytest.raises(errors.AuditColumnsDiffer) as refused:
        audited(connect, ignored=("loaded_at",))
    assert refused.value.missing == ("value",)


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({"ignored": ("nowhere",)}, errors.AuditColumnUnknown),
        ({"ignored": ("__connect_offset",)}, errors.AuditColumnNeeded),
        ({"coordinates": ("t", "p", "o")}, errors.AuditColumnNeeded),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    connect: World, question: dict[str, Any], error: type[TidemarkError]
) -> None:
    with pytest.raises(error):
        audited(connect, **question)


def test_a_table_without_coordinates_needs_a_bound(bare: World) -> None:
    with pytest.raises(errors.AuditNeedsBound):
        audited(bare)


def test_a_type_that_no_value_becomes_is_refused(connect: World) -> None:
    connect.sql("ALTER TABLE public.records DROP value, ADD value point")
    connect.settings["decode"] = {"schema": {"value": "bigint"}}
    with pytest.raises(errors.AuditTypesDiffer):
        audited(connect)


def test_a_table_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(errors.AuditTableMissing):
        audited(world)


def test_an_empty_table_has_lost_all_that_the_group_has_read(connect: World) -> None:
    connect.sql("TRUNCATE public.records")
    commit(connect, group_of(connect), p0=10, p1=4)
    assert counts(audited(connect, group=group_of(connect))) == {"lost": 14}
    assert audited(connect).wrong == 0  # its rows say up to where: there are none


def test_rows_of_other_topics_are_counted_and_not_compared(connect: World) -> None:
    connect.sql("INSERT INTO public.records VALUES ('x', 'another', 0, 0), ('x', 'another', 0, 0)")
    report = audited(connect)
    assert (report.wrong, report.notes) == (0, ("2 rows of other topics: not compared",))


def test_a_pattern_takes_in_its_topics(connect: World) -> None:
    connect.settings["kafka"] = {"topics": [f"^{connect.topic[:-1]}.$"]}
    assert audited(connect).rows == 20


def test_a_view_is_audited_like_a_table(connect: World) -> None:
    connect.sql("CREATE VIEW public.seen AS SELECT * FROM public.records WHERE value <> 'value 3'")
    connect.settings["target"] = {"table": "public.seen"}
    assert named(audited(connect)) == [("lost", "[0]@3")]


@pytest.fixture
def reader(connect: World, stack: LocalStack) -> Iterator[World]:
    """A login that may read the table, and nothing else, in a database that is open to nobody."""
    name, database = f"auditor_{uuid4().hex[:8]}", connect.warehouse["dbname"]
    as_admin = stack.postgres.parameters(database, ADMIN)
    ask(as_admin, f"CREATE ROLE {name} LOGIN PASSWORD 'auditor'")
    ask(as_admin, f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")
    ask(as_admin, f"GRANT CONNECT ON DATABASE {database} TO {name}")
    ask(as_admin, f"GRANT SELECT ON public.records TO {name}")
    yield replace(connect, warehouse=connect.warehouse | {"user": name, "password": "auditor"})
    ask(as_admin, f"DROP OWNED BY {name}")
    ask(as_admin, f"DROP ROLE {name}")


def test_who_may_only_read_audits_and_nothing_is_written(reader: World, admin: AdminClient) -> None:
    groups = set(group_ids(admin))
    assert audited(reader).wrong == 0
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        reader.sql("CREATE TEMPORARY TABLE t ()")
    assert reader.sql("SELECT to_regnamespace('tidemark') IS NULL") == [(True,)]
    assert reader.region not in set(group_ids(admin)) - groups


def group_ids(admin: AdminClient) -> list[str]:
    return [one.group_id for one in admin.list_consumer_groups().result(60).valid]


def test_a_table_that_hides_rows_from_the_login_is_refused(connect: World, reader: World) -> None:
    connect.sql("ALTER TABLE public.records ENABLE ROW LEVEL SECURITY")
    with pytest.raises(errors.AuditRowsHidden):
        audited(reader)


def test_an_audit_that_is_interrupted_leaves_no_session(connect: World) -> None:
    def interrupt(done: int, total: int, at: str) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(
            connect.pipeline,
            connect.connections,
            AuditQuestion(),
            spark=no_spark,
            tell=interrupt,
        )
    others = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    until(lambda: connect.sql(others) == [(0,)])


def test_rows_that_come_while_we_look_are_not_judged(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is seen at one moment; the group was asked before."""
    commit(bare, group_of(bare), p0=10, p1=10)

    def more(*given: Any) -> Any:
        bare.sql("DELETE FROM public.records WHERE value = 'value 1'")
        bare.sql("INSERT INTO public.records VALUES ('later')")
        send(bare, [{"value": "later"}])
        commit(bare, group_of(bare), p0=11, p1=10)
        return facts_after(*given)

    monkeypatch.setattr("tidemark.verify.audit.facts_after", more)
    assert audited(bare, group=group_of(bare)).wrong == 0


def test_records_that_come_before_the_snapshot_are_known(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows may be there, though the group was asked before they came."""
    commit(bare, group_of(bare), p0=10, p1=10)

    def first(*given: Any) -> Any:
        send(bare, [{"value": "new"}])
        bare.sql("INSERT INTO public.records VALUES ('new')")
        return snapshot(*given)

    monkeypatch.setattr("tidemark.verify.audit.snapshot", first)
    report = audited(bare, group=group_of(bare))
    assert (report.wrong, report.unverifiable, report.notes) == (0, (), ())


def test_an_arrow_transform_makes_the_rows_of_the_other_tool(connect: World) -> None:
    connect.settings["transform"] = "tests.support.transforms:shout"
    connect.sql("ALTER TABLE public.records ADD loud text")
    connect.sql("UPDATE public.records SET loud = upper(value)")
    connect.sql("DELETE FROM public.records WHERE __connect_offset % 5 = 0")
    assert (audited(connect).wrong, audited(connect).expected) == (0, 16)
    connect.sql("UPDATE public.records SET loud = value WHERE __connect_offset = 1")
    assert named(audited(connect)) == [("altered", "[0]@1"), ("altered", "[1]@1")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("of_each", None),
        ("grouped", errors.RowsNotByRecord),
        ("without_place", errors.RowsBearNoRecord),
    ],
)
def test_a_transform_of_dataframes_makes_rows_record_by_record(
    connect: World, name: str, error: type[TidemarkError] | None
) -> None:
    connect.settings["transform"] = f"{__name__}:{name}"
    connect.sql("UPDATE public.records SET value = upper(value)")
    with session("tidemark audit tests") as spark:
        question = AuditQuestion()
        if error:
            with pytest.raises(error):
                audit(connect.pipeline, connect.connections, question, spark=lambda: spark)
            return
        report = audit(connect.pipeline, connect.connections, question, spark=lambda: spark)
    assert (report.wrong, report.expected) == (0, 20)


def of_each(rows: DataFrame) -> DataFrame:
    """Other values, record by record."""
    return rows.withColumn("value", F.upper("value"))


def grouped(rows: DataFrame) -> DataFrame:
    """Rows of several records."""
    return of_each(rows).dropDuplicates(["value"])


def without_place(rows: DataFrame) -> DataFrame:
    """Rows that do not tell their record."""
    return of_each(rows).drop("kafka_offset")
