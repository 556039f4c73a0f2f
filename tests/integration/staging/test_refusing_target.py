"""A target that refuses rows: named, without the data of the row."""

import psycopg2
import pytest
from tests.support.flights_table import (
    TARGET,
    create_flights,
    publish_a_row,
)

from tidemark.postgres.session import Connection, Cursor
from tidemark.staging.errors import RowRefused
from tidemark.staging.refusal import is_refusal, target_refused

VERSIONS = ("18", "15")


@pytest.mark.parametrize(
    ("guard", "name"),
    [
        ("CONSTRAINT on_time CHECK (delay > 0)", "on_time"),
        ("CONSTRAINT once UNIQUE (id)", "once"),
        ("CONSTRAINT late UNIQUE (id) DEFERRABLE INITIALLY DEFERRED", "late"),
    ],
)
def test_a_target_that_refuses_is_named_without_the_row(
    connection: Connection, cursor: Cursor, guard: str, name: str
) -> None:
    create_flights(cursor, guard)
    cursor.execute("INSERT INTO flights (id, delay, batch_seq) VALUES (7, 1, 0)")
    connection.commit()
    with pytest.raises(psycopg2.Error) as refusal:
        publish_a_row(connection, cursor)
    assert is_refusal(refusal.value)
    error = target_refused(refusal.value, [TARGET])
    assert isinstance(error, RowRefused)
    assert (error.names["constraint"], error.sqlstate) == (name, refusal.value.pgcode)
    assert "UA" not in str(error)
    assert "(7)" not in str(error)


def test_a_trigger_that_raises_is_a_refusal(connection: Connection, cursor: Cursor) -> None:
    create_flights(cursor)
    cursor.execute(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'secret %', NEW.carrier; END $$;"
        "CREATE TRIGGER no BEFORE INSERT ON flights FOR EACH ROW EXECUTE FUNCTION no()"
    )
    with pytest.raises(psycopg2.Error) as refusal:
        publish_a_row(connection, cursor)
    assert is_refusal(refusal.value)
    assert "secret" not in str(target_refused(refusal.value, [TARGET]))
