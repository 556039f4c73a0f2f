"""Nobody's function runs with the rights of our role because its name is one of Postgres' own."""

from collections.abc import Callable
from contextlib import closing
from io import BytesIO
from typing import Any

import psycopg2
import pytest
from tests.conftest import Parameters

from tidemark.postgres.session import lock_name, open_session, try_lock_name
from tidemark.postgres.transaction import autocommit, connect, snapshot, transaction
from tidemark.spark._postgres import connected

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
