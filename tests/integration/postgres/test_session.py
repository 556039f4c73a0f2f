"""No default of a server, a database or a role changes a session of ours, and no name of others."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BytesIO
from typing import Any

import psycopg2
import pytest
from tests.conftest import Parameters
from tests.support.databases import administer
from tests.support.region import ask
from tests.support.server_settings import unknown_settings
from tests.support.waiting import until

from tidemark.postgres.errors import LedgerConstraintViolated, SettingNotAsNeeded
from tidemark.postgres.session import NEEDED, SETTINGS, lock_name, open_session, try_lock_name
from tidemark.postgres.transaction import (
    autocommit,
    connect,
    snapshot,
    transaction,
)
from tidemark.spark._postgres import connected
from tidemark_local.stack import LocalStack

PLANTED = """
CREATE TABLE public.called (by text);
CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO public.called VALUES (current_user); SELECT 1::bigint
$$;
"""


@pytest.fixture
def planted(warehouse: Parameters) -> Parameters:
    """A database in whose `public` functions stand that fit our calls better than Postgres' own."""
    with closing(psycopg2.connect(**warehouse)) as session, session, session.cursor() as cursor:
        cursor.execute(PLANTED)
    return warehouse


def test_a_function_that_fits_a_call_better_is_not_called(planted: Parameters) -> None:
    engine = connect(planted)
    with transaction(engine, "target") as cursor:
        lock_name(cursor, "a name")
    with autocommit(engine) as cursor:
        assert try_lock_name(cursor, "a name")
    engine.dispose()
    with closing(psycopg2.connect(**planted)) as session, session.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM public.called")
        assert cursor.fetchone() == (0,)
        # the plant is a real one: a session of anybody else does call it
        lock_name(cursor, "a name")
        cursor.execute("SELECT count(*) FROM public.called")
        assert cursor.fetchone() == (1,)


@pytest.mark.parametrize("opened", [open_session, connected])
def test_each_session_finds_names_in_pg_catalog_alone(
    opened: Callable[[Parameters], Any], warehouse: Parameters
) -> None:
    chosen = {**warehouse, "options": "-c search_path=public"}
    with closing(opened(chosen)) as session, session.cursor() as cursor:
        session.rollback()
        cursor.execute("SHOW search_path")
        assert cursor.fetchone() == ("pg_catalog, pg_temp",)


@pytest.mark.parametrize("opened", [open_session, connected])
def test_each_session_whose_client_is_gone_is_noticed_by_the_server(
    opened: Callable[[Parameters], Any], warehouse: Parameters
) -> None:
    """What it holds, an advisory lock too, is free within two minutes and not within two hours."""
    with closing(opened(warehouse)) as session, session.cursor() as cursor:
        session.rollback()
        cursor.execute(
            "SELECT sum(setting::int * CASE name WHEN 'tcp_keepalives_interval' THEN 6 ELSE 1 END)"
            " FROM pg_settings WHERE name IN ('tcp_keepalives_idle', 'tcp_keepalives_interval')"
        )
        assert cursor.fetchone() == (120,)
        cursor.execute("SHOW tcp_keepalives_count")
        assert cursor.fetchone() == ("6",)


@pytest.mark.parametrize("opened", [open_session, connected])
def test_each_session_sends_texts_as_utf8(
    opened: Callable[[Parameters], Any], warehouse: Parameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G145: every byte is LATIN1 too: COPY's `é` would be kept as `Ã©`, and each count agree."""
    with closing(psycopg2.connect(**warehouse)) as session, session, session.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {warehouse['dbname']} SET client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with closing(opened(warehouse)) as session, session.cursor() as cursor:
        session.rollback()
        cursor.execute("CREATE TEMPORARY TABLE texts (text text)")
        cursor.copy_expert("COPY texts FROM STDIN", BytesIO("é".encode()))
        cursor.execute("SELECT text, char_length(text) FROM texts")
        assert cursor.fetchone() == ("é", 1)


@pytest.mark.parametrize("block", [autocommit, snapshot])
def test_each_session_of_the_pool_does(block: Callable[..., Any], warehouse: Parameters) -> None:
    engine = connect({**warehouse, "options": "-c search_path=public"})
    with block(engine) as cursor:
        cursor.execute("SHOW search_path")
        assert cursor.fetchone() == ("pg_catalog, pg_temp",)
    engine.dispose()


HOSTILE = {
    "search_path": "public",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "1",
    "tcp_user_timeout": "1",
    "idle_session_timeout": "1h",
    "idle_in_transaction_session_timeout": "2h",
    "transaction_timeout": "1h",
    "statement_timeout": "1h",
    "lock_timeout": "1h",
    "exit_on_error": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "timezone": "Asia/Tokyo",
    "timezone_abbreviations": "Australia",
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "lc_monetary": "POSIX",
    "array_nulls": "off",
    "xmloption": "document",
    "xmlbinary": "hex",
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "restrict_nonsystem_relation_kind": "view",
    "gin_fuzzy_search_limit": "1",
    "default_table_access_method": "none",
}
"""Of each setting another value than ours."""


@pytest.fixture
def hostile(any_warehouse: Parameters) -> Parameters:
    """A database whose sessions begin with other values, of those settings that it knows."""
    with closing(psycopg2.connect(**any_warehouse)) as session, session, session.cursor() as cursor:
        cursor.execute("SELECT lower(name) FROM pg_settings")
        known = {name for (name,) in cursor.fetchall()}
        for name, value in HOSTILE.items():
            if name in known and name != "default_table_access_method":
                statement = f"ALTER DATABASE {any_warehouse['dbname']} SET {name} = %s"
                cursor.execute(statement, (value,))
    return any_warehouse


def values_of(cursor: Any) -> dict[str, str]:
    cursor.execute("SELECT lower(name), current_setting(name) FROM pg_catalog.pg_settings")
    return {name: value for name, value in cursor.fetchall() if name in SETTINGS}


def test_no_default_of_a_database_reaches_a_session_of_ours(hostile: Parameters) -> None:
    """What can end it, its isolation, and how values are spelled; a task's has its own bounds."""
    with closing(psycopg2.connect(**hostile)) as session, session.cursor() as cursor:
        others = values_of(cursor)
    ours = {name: value for name, value in SETTINGS.items() if name in others}
    assert {name for name in ours if others[name] == ours[name]} <= {"default_table_access_method"}
    engine = connect(hostile)
    with autocommit(engine) as cursor:
        assert values_of(cursor) == {
            **ours,
            "timezone_abbreviations": "Default",
            "statement_timeout": "1d",
        }
    engine.dispose()
    with closing(connected(hostile)) as session, session.cursor() as cursor:
        found = values_of(cursor)
    bounds = {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}
    assert {found[name] == ours[name] for name in ours if name not in bounds} == {True}


def test_nobody_has_left_a_setting_of_this_server_unjudged(any_warehouse: Parameters) -> None:
    """A name here is a setting that is new: set it, ask for it, or say why it is harmless."""
    assert unknown_settings(any_warehouse) == set()


def test_each_setting_of_ours_has_a_hostile_value_here() -> None:
    assert set(HOSTILE) == set(SETTINGS)


def test_a_transaction_timeout_of_others_ends_no_transaction(warehouse: Parameters) -> None:
    """Postgres 17 and newer: a publish, a rewind, and a task's COPY take as long as they take."""
    ask(warehouse, f"ALTER DATABASE {warehouse['dbname']} SET transaction_timeout = '100ms'")
    with pytest.raises(psycopg2.Error):
        ask(warehouse, "SELECT pg_sleep(60)")
    engine = connect(warehouse)
    with transaction(engine, "publish") as cursor:
        cursor.execute("SELECT pg_sleep(0.3)")
    engine.dispose()
    with closing(connected(warehouse)) as session, session.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.3)")
        session.commit()


def test_a_write_of_its_own_sees_what_it_has_waited_for(warehouse: Parameters) -> None:
    """No COMMIT that comes meanwhile is a failure to serialize, whatever the database's default."""
    ask(warehouse, "CREATE TABLE public.one (n int)")
    ask(warehouse, "INSERT INTO public.one VALUES (0)")
    ask(
        warehouse,
        f"ALTER DATABASE {warehouse['dbname']} SET default_transaction_isolation = 'serializable'",
    )
    engine = connect(warehouse)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'n [+] 2'"

    def write() -> None:
        with autocommit(engine) as cursor:
            cursor.execute("UPDATE public.one SET n = n + 2")

    with ThreadPoolExecutor(1) as pool:
        with transaction(engine, "publish") as cursor:
            cursor.execute("UPDATE public.one SET n = n + 1")
            written = pool.submit(write)
            until(lambda: ask(warehouse, waiting) != [])
        written.result()
    engine.dispose()
    assert ask(warehouse, "SELECT n FROM public.one") == [(3,)]


@pytest.mark.parametrize("setting", NEEDED)
def test_a_session_that_would_pass_over_guards_is_refused(
    stack: LocalStack, warehouse: Parameters, setting: str
) -> None:
    """Only a superuser sets it."""
    other = {"origin": "replica", "off": "on"}[NEEDED[setting][0]]
    administer(stack.postgres, f"ALTER DATABASE {{}} SET {setting} = {other}", warehouse["dbname"])
    for opened in (open_session, connected):
        with pytest.raises(SettingNotAsNeeded) as caught:
            opened(warehouse)
        assert (caught.value.setting, caught.value.found) == (setting, other)
    engine = connect(warehouse)
    with pytest.raises(SettingNotAsNeeded), transaction(engine, "publish"):
        pass
    engine.dispose()


def test_a_session_whose_triggers_fire_all_the_same_is_taken(
    stack: LocalStack, warehouse: Parameters
) -> None:
    """Logical replication's own tools set it."""
    statement = "ALTER DATABASE {} SET session_replication_role = local"
    administer(stack.postgres, statement, warehouse["dbname"])
    open_session(warehouse).close()


def test_what_a_commit_refuses_is_told_in_our_words(warehouse: Parameters) -> None:
    """Nothing of it stands, and no retry helps."""
    ask(warehouse, "CREATE TABLE public.late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    engine = connect(warehouse)
    with pytest.raises(LedgerConstraintViolated), transaction(engine, "publish") as cursor:
        cursor.execute("INSERT INTO public.late VALUES (1), (1)")
    engine.dispose()
    assert ask(warehouse, "SELECT * FROM public.late") == []
