"""The stack that runs, as `tidemark local` shows it: its rows, its topics, its folder."""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.commands import tidemark
from tests.support.region import kafka_connection

from tidemark_local._asking import ask
from tidemark_local.errors import LocalPostgresSilent, LocalStatementRefused, StackMissing
from tidemark_local.stack import LocalStack


def sql(stack: LocalStack, statement: str) -> str:
    return tidemark("local", "sql", statement, "--dir", str(stack.folder.root)).stdout


def test_rows_are_seen_as_postgres_has_them(stack: LocalStack) -> None:
    told = sql(stack, """SELECT 7 AS n, 'a%s' AS t, '{"a": [1]}'::jsonb AS j, NULL AS x""")
    assert [line.split() for line in told.splitlines()] == [
        ["n", "t", "j", "x"], ["7", "a%s", '{"a":', "[1]}"], ["1", "row"],
    ]  # fmt: skip


ODD = ["'infinity'::timestamptz", "'-infinity'::date", "'0044-03-15 BC'::date",
       "'10000-06-23'::date", "'4713-01-01 BC'::timestamp", "'24:00'::time", "'12:00+02'::timetz",
       "'1 mon -2 days'::interval", "ARRAY['infinity'::date, NULL]", "ARRAY['a', 'b,c']", "1.10",
       "'NaN'::numeric", "1e22::float8", r"'\x00ff'::bytea", """'{"a":  1.50}'::json""",
       "daterange(NULL, 'infinity')"]  # fmt: skip


def test_values_are_shown_as_postgres_says_them(stack: LocalStack) -> None:
    """Python has no such times, and other texts for truth, numbers and lists."""
    texts = [f"({one})::text" for one in ODD]
    shown, told = (
        ask(stack.postgres.parameters(), f"SELECT {', '.join(values)}").rows
        for values in (ODD, texts)
    )
    assert shown == told
    assert sql(stack, "SELECT true AS v").split() == ["v", "t", "1", "row"]
    assert "infinity" in sql(stack, f"SELECT {ODD[0]} AS v")


def test_no_more_rows_are_shown_than_can_be_read(stack: LocalStack) -> None:
    told = sql(stack, "SELECT generate_series(1, 1200)").splitlines()
    assert (len(told), told[-1]) == (1002, "1,200 rows, the first 1,000 are shown")


def test_what_a_record_said_has_no_power_over_the_terminal(stack: LocalStack) -> None:
    assert "\x1b" not in sql(stack, r"SELECT E'\x1b[31mred' AS t")


def test_a_statement_stands_whole_or_not_at_all(stack: LocalStack) -> None:
    name = f"t_{uuid4().hex}"
    parameters = stack.postgres.parameters()
    assert sql(stack, f"CREATE TABLE {name} (n int)") == "CREATE TABLE\n"
    with pytest.raises(LocalStatementRefused):
        ask(parameters, f"INSERT INTO {name} VALUES (1); SELECT 1 / 0")
    assert ask(parameters, f"SELECT n FROM {name}").count == 0
    assert sql(stack, f"DROP TABLE {name}") == "DROP TABLE\n"


def test_a_server_that_is_away_and_a_folder_without_stack_are_told(
    stack: LocalStack, tmp_path: Path
) -> None:
    with pytest.raises(LocalPostgresSilent) as silent:
        ask(stack.postgres.parameters() | {"port": 1}, "SELECT 1")
    assert silent.value.port == 1
    folder = tmp_path / "none"
    told = tidemark("local", "sql", "SELECT 1", "--dir", str(folder), exits=StackMissing.exit_code)
    assert str(folder) in told.stderr
    assert not folder.exists()


def test_stacks_are_listed_whatever_their_folder(
    stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.split() for line in tidemark("local", "list").stdout.splitlines()]
    (own,) = (names for folder, *names in lines if folder == str(stack.folder.root))
    assert {"kafka", "postgres"} <= set(own)


def test_a_topic_is_made_once(
    kafka: str, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*kafka_connection(kafka).to_env())
    name = f"made-{uuid4().hex}"
    for wanted in ("3", "5"):
        told = tidemark("local", "topic", name, "--partitions", wanted).stdout
        assert told == f"topic {name} has 3 partitions\n"
    admin.delete_topics([name])
