"""Sessions of readers and writers: the role's time-outs do not reach them, their own end them.

A process keeps them for the next task, as long as they are as new.
"""

from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from tests.support.databases import administer
from tests.support.region import ask
from tests.support.waiting import until

from tidemark.errors import Unreachable
from tidemark.model.batch import ONLY, Staging
from tidemark.spark import _postgres as sessions
from tidemark.spark._postgres import TASK_TIMEOUTS, connected, end_sessions, task_session
from tidemark.spark._writer import Parts, WriteSpec, stage
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark_local.stack import LocalStack

SCHEMA = pa.schema([("n", pa.int64())])
STAGING = Staging("public", "t_rows", "t_dead_letters", "t_reads")


@pytest.fixture
def spec(warehouse: dict[str, Any]) -> WriteSpec:
    """Where a member stages; the tables are there."""
    with psycopg2.connect(**warehouse) as connection, connection.cursor() as cursor:
        tables.create(cursor, STAGING, columns_of(SCHEMA))
    connection.close()
    return WriteSpec(warehouse, STAGING, {ONLY: SCHEMA}, member=1)


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(count), pa.int64())], schema=SCHEMA)


def wait_for_its_end(spec: WriteSpec) -> None:
    """The server has taken the staging tables from the task: nobody else does."""
    held = "SELECT 1 FROM pg_locks JOIN pg_class c ON relation = c.oid WHERE relname ~ '^t_'"
    until(lambda: not ask(dict(spec.postgres), held))


def staged(spec: WriteSpec) -> int:
    """Rows that are staged."""
    [(count,)] = ask(dict(spec.postgres), f"SELECT count(*) FROM {STAGING.schema}.{STAGING.rows}")
    return int(count)


@pytest.mark.long
def test_a_roles_own_time_outs_do_not_end_a_long_copy(stack: LocalStack, spec: WriteSpec) -> None:
    """H10: the role's are for people; a task has those of a task."""
    role, database = spec.postgres["user"], spec.postgres["dbname"]
    altered = "ALTER ROLE {} IN DATABASE {} SET statement_timeout = 20"
    administer(stack.postgres, altered, role, database)
    with pytest.raises(psycopg2.errors.QueryCanceled):
        ask(dict(spec.postgres), "SELECT pg_sleep(60)")
    assert stage(spec, [{ONLY: numbers(200_000)}], 0).rows == {ONLY: 200_000}


def test_a_session_of_a_task_has_its_own_time_outs(spec: WriteSpec) -> None:
    connection = connected(spec.postgres)
    with connection.cursor() as cursor:
        for setting, value in TASK_TIMEOUTS.items():
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == (value,)
    connection.close()


@pytest.mark.long
def test_a_writer_that_stops_between_two_blocks_holds_nothing(
    spec: WriteSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: its source has stopped, or it has."""
    monkeypatch.setitem(TASK_TIMEOUTS, "idle_in_transaction_session_timeout", "200ms")

    def stopping() -> Iterator[Parts]:
        yield {ONLY: numbers(10)}
        wait_for_its_end(spec)
        yield {ONLY: numbers(10)}

    with pytest.raises(Unreachable):
        stage(spec, stopping(), 0)
    assert staged(spec) == 0


def server_process(spec: WriteSpec) -> int:
    """The server's process behind the session that a task gets now."""
    with task_session(spec.postgres) as session, session, session.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [(pid,)] = cursor.fetchall()
    return int(pid)


def test_a_session_serves_one_task_after_another(spec: WriteSpec) -> None:
    first = server_process(spec)
    assert stage(spec, [{ONLY: numbers(10)}], 0).rows == {ONLY: 10}
    assert server_process(spec) == first


def test_two_tasks_at_once_have_a_session_each(spec: WriteSpec) -> None:
    with task_session(spec.postgres):
        inner = server_process(spec)
        assert server_process(spec) == inner
    assert len(ask(dict(spec.postgres), OTHERS)) == 2


OTHERS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.mark.long
def test_a_session_that_the_server_has_ended_serves_nobody(spec: WriteSpec) -> None:
    ended = server_process(spec)
    ask(dict(spec.postgres), "SELECT pg_terminate_backend(%s, 60000)", (ended,))
    assert stage(spec, [{ONLY: numbers(10)}], 0).rows == {ONLY: 10}
    assert server_process(spec) != ended


@pytest.mark.long
def test_a_session_of_other_parameters_serves_nobody(spec: WriteSpec) -> None:
    first = server_process(spec)
    other = WriteSpec({**spec.postgres, "application_name": "other"}, STAGING, {}, member=1)
    assert server_process(other) != first


def test_a_session_that_was_idle_for_long_serves_nobody(
    spec: WriteSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "KEPT_SECONDS", -1)
    assert server_process(spec) != server_process(spec)


@pytest.mark.long
@pytest.mark.parametrize("failure", [psycopg2.DatabaseError, KeyboardInterrupt])
def test_a_session_whose_transaction_did_not_end_well_serves_nobody(
    spec: WriteSpec, failure: type[BaseException]
) -> None:
    """What it held is free, and nothing of it is left for another task."""
    with suppress(failure), task_session(spec.postgres) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE public.left_over ()")
        raise failure
    assert ask(dict(spec.postgres), "SELECT to_regclass('public.left_over')") == [(None,)]
    assert not ask(dict(spec.postgres), OTHERS)


def test_a_process_that_has_no_further_task_keeps_none(spec: WriteSpec) -> None:
    server_process(spec)
    end_sessions()
    until(lambda: not ask(dict(spec.postgres), OTHERS))


@pytest.mark.long
def test_a_process_that_was_forked_leaves_its_parents_session_alone(spec: WriteSpec) -> None:
    first = server_process(spec)
    with get_context("fork").Pool(1) as pool:
        other = pool.apply(server_process, (spec,))
    assert other != first
    assert server_process(spec) == first
