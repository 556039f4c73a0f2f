"""What Postgres refuses or gives up, as a person on call reads it."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.support.desk import Desk
from tests.support.world import World

from tidemark.errors import TidemarkError, Unreachable
from tidemark.model.plan import Bounds
from tidemark.postgres.errors import (
    GAVE_UP,
    LedgerConstraintViolated,
    LedgerContradicted,
    LedgerTablesDiffer,
    LimitOfPostgres,
    PostgresRightMissing,
    PostgresUnreachable,
    ValueNotTaken,
)
from tidemark.postgres.transaction import TIMEOUTS_MS, autocommit, connect, transaction
from tidemark.runs.errors import ConnectionUnreachable
from tidemark.runs.region import named, region_of
from tidemark.spark._postgres import postgres_errors


def test_a_rewind_may_take_longer_than_any_other_transaction(desk: Desk) -> None:
    longer = TIMEOUTS_MS | {"statement_timeout": 24 * 3_600_000}
    with transaction(desk.engine, "rewind") as cursor:
        for name, milliseconds in longer.items():
            cursor.execute("SELECT setting FROM pg_settings WHERE name = %s", (name,))
            assert cursor.fetchone() == (str(milliseconds),)


def test_a_decision_sees_what_the_one_before_it_left_whatever_the_servers_default(
    desk: Desk,
) -> None:
    """H18: at repeatable read its snapshot would be older than the region lock."""
    stricter = connect(
        desk.warehouse | {"options": "-c default_transaction_isolation=serializable"}
    )
    with transaction(stricter, "x") as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("read committed",)
    stricter.dispose()


@pytest.mark.parametrize("state", ["57014", "55P03", "40P01", "53100", "25006", "25P03"])
def test_a_server_that_gave_up_is_not_said_to_be_down(desk: Desk, state: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'gave up' USING ERRCODE = '{state}'; END $$"

    def give_up() -> None:
        with transaction(desk.engine, "x") as cursor:
            cursor.execute(raising)

    with pytest.raises(PostgresUnreachable) as caught:
        give_up()
    assert (caught.value.cause, caught.value.sqlstate) == ("gave up", state)
    assert GAVE_UP[state] in str(caught.value)


@pytest.mark.parametrize(
    ("state", "case"),
    [
        ("22P05", ValueNotTaken),
        ("54000", LimitOfPostgres),
        ("54001", LimitOfPostgres),
        ("54011", LimitOfPostgres),
        ("54023", LimitOfPostgres),
        ("42501", PostgresRightMissing),
        ("28000", PostgresRightMissing),
        ("0A000", LedgerTablesDiffer),
        ("P0001", LedgerTablesDiffer),
    ],
)
def test_what_can_never_succeed_is_no_server_that_is_away(
    desk: Desk, state: str, case: type[TidemarkError]
) -> None:
    """G171: psycopg2 calls some of them an OperationalError, as it calls a server that is gone."""
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'secret' USING ERRCODE = '{state}'; END $$"
    with closing(psycopg2.connect(**desk.warehouse)) as of_a_task:
        for inside in (transaction(desk.engine, "x"), autocommit(desk.engine), postgres_errors()):
            with pytest.raises(case) as caught, inside as cursor:
                (cursor or of_a_task.cursor()).execute(raising)
            assert not caught.value.retry_may_help
            of_a_task.rollback()
    assert case is not ValueNotTaken or "secret" not in str(caught.value)


def test_what_ran_into_a_time_out_says_which(desk: Desk) -> None:
    def wait(setting: str, statement: str) -> None:
        with transaction(desk.engine, "x", TIMEOUTS_MS | {setting: 50}) as cursor:
            cursor.execute(statement)

    with pytest.raises(PostgresUnreachable):
        wait("statement_timeout", "SELECT pg_sleep(5)")
    with (
        desk.ledger.settling(desk.region, "x"),
        pytest.raises(PostgresUnreachable),
    ):
        wait("lock_timeout", f"UPDATE tidemark.regions SET epoch = 9 WHERE {desk.here}")


def test_a_ledger_that_was_edited_is_said_to_be_inconsistent(desk: Desk) -> None:
    epoch = desk.open(bounds=Bounds(4)).epoch
    desk.work(epoch)
    desk.sql(f"UPDATE tidemark.partitions SET next_offset = 0 WHERE {desk.here}")
    with pytest.raises(LedgerContradicted) as it:
        desk.plan(epoch)
    assert it.value.constraint == "spans_do_not_overlap"
    assert (it.value.code, it.value.exit_code) == ("LEDGER_INCONSISTENT", 17)


def test_a_constraint_without_a_text_of_its_own_is_inconsistent_too(desk: Desk) -> None:
    def break_it() -> None:
        with transaction(desk.engine, "x") as cursor:
            cursor.execute(f"UPDATE tidemark.regions SET epoch = -1 WHERE {desk.here}")

    with pytest.raises(LedgerConstraintViolated):
        break_it()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"password": "wrong-and-secret"}, "correct login and password of the connection"),
        ({"schema": "nowhere"}, "correct the connection's schema"),
        ({"port": 1}, "nothing listens there: start the server"),
    ],
)
def test_a_database_that_cannot_be_entered_is_named_by_its_connection(
    world: World, wrong: dict[str, Any], hint: str
) -> None:
    connection = replace(world.connections["tidemark_warehouse"], **wrong)
    connections = world.connections | {"tidemark_warehouse": connection}
    with (
        pytest.raises(ConnectionUnreachable) as refused,
        region_of(world.pipeline, connections) as region,
    ):
        region.ledger.region_state("any")
    at = f"connection 'tidemark_warehouse', {connection.host}:{connection.port}, database"
    assert refused.value.place == f"{at} {connection.schema}"
    assert hint in refused.value.cause  # chosen by the client's words: there is no SQLSTATE
    assert str(connection.password) not in str(refused.value)


def test_kafka_that_does_not_answer_is_named_by_its_connection(world: World) -> None:
    kafka, warehouse = world.connections["tidemark_kafka"], world.connections["tidemark_warehouse"]
    for cause in (KafkaException(KafkaError(KafkaError._TIMED_OUT)), TimeoutError()):
        with pytest.raises(Unreachable) as told, named(kafka, warehouse):
            raise Unreachable() from cause
        assert str(told.value).endswith(f"[connection 'tidemark_kafka', {world.kafka}]")
