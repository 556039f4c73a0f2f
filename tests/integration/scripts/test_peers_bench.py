"""The bench's paths on a few records: what they write, and what is counted after SIGKILL."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import psycopg2
import pytest
from confluent_kafka.admin import AdminClient
from psycopg2 import sql
from scripts.attempt import Attempt
from scripts.bench import Bench
from scripts.bench_kill import killed, lost_and_doubled
from scripts.bench_paths import LARGE
from scripts.bench_rounds import Rounds
from scripts.flight_data import Record, records
from scripts.peers import Peers

from tidemark.errors import NotStarted
from tidemark.local.environment import connections
from tidemark.local.stack import LocalStack

RECORDS = 5_000


class Small(Bench):
    """The bench in a database of the tests' own."""

    def __init__(self, stack: LocalStack, database: dict[str, Any], flights: list[Record]) -> None:
        super().__init__(stack, 1, flights)
        self.postgres = database

    def environment(self) -> dict[str, str]:
        return connections(
            self.stack.kafka.bootstrap, self.postgres, registry=self.stack.registry.url
        )


COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"


@pytest.fixture(scope="module")
def peers(stack: LocalStack, database: dict[str, Any]) -> Iterator[Peers]:
    """Beside a Tidemark that drained the same records."""
    bench = Small(stack, database, list(islice(records(), RECORDS)))
    yield Peers(bench)
    AdminClient({"bootstrap.servers": stack.kafka.bootstrap}).delete_topics([bench.topic])


@pytest.mark.spark
def test_a_stream_writes_what_tidemark_writes(peers: Peers) -> None:
    bench, attempt = peers.bench, peers.stream(RECORDS // 2)
    bench.measured(attempt)
    assert differences(bench, attempt.table, peers.plain) == 0
    bench.erase(attempt)
    assert bench.rows(attempt.table) == 0


def test_a_consumer_killed_and_started_again_writes_what_tidemark_writes(peers: Peers) -> None:
    bench, attempt = peers.bench, peers.consumer(100)
    found = killed(bench, attempt, at=1 / RECORDS)
    assert 0 < found.visible < RECORDS
    assert (found.lost, found.doubled) == (0, 0)
    assert differences(bench, attempt.table, peers.plain) == 0


def differences(bench: Bench, table: str, model: str) -> int:
    """Rows that only one of the two has."""
    columns = sql.SQL(", ").join(sql.Identifier(name) for (name,) in bench.ask(COLUMNS, table))
    one, two = (
        sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(name))
        for name in (table, model)
    )
    both = "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0})) AS d"
    [(count,)] = bench.ask(sql.SQL(both).format(one, two))
    return int(count)


def test_a_bare_copy_writes_what_tidemark_wrote(peers: Peers) -> None:
    bench, attempt = peers.bench, peers.copy()
    run = bench.measured(attempt)
    assert run.work > 0
    assert run.usage.cpu["postgres"] > 0
    assert differences(bench, attempt.table, peers.plain) == 0


def test_rows_lost_and_doubled_are_told_by_their_offsets(peers: Peers) -> None:
    bench, attempt = peers.bench, peers.consumer(LARGE)
    bench.measured(attempt)
    table = sql.Identifier(attempt.table)
    some = "SELECT ctid FROM {0} LIMIT 3"
    double = "INSERT INTO {0} SELECT * FROM {0} LIMIT 2"
    with closing(psycopg2.connect(**bench.postgres)) as connection, connection:
        for statement in (f"DELETE FROM {{0}} WHERE ctid IN ({some})", double):
            connection.cursor().execute(sql.SQL(statement).format(table))
    assert lost_and_doubled(bench, attempt.table) == (3, 2)


def test_a_path_that_cannot_run_is_left_out_by_name(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = peers.consumer

    def without_large(batch: int) -> Attempt:
        if batch == LARGE:
            raise NotStarted()
        return consumer(batch)

    monkeypatch.setattr(peers, "consumer", without_large)
    rounds = Rounds(peers, "consumer by hand")
    rounds.take(2)
    assert {str(path): len(runs) for path, runs in rounds.runs.items()} == {
        "consumer by hand, 50,000": 2
    }
    assert rounds.left_out == {"consumer by hand, 1,000,000": "NotStarted: no jar"}
    rounds.show()


def test_two_in_flight_are_left_out_where_there_is_one_batch(peers: Peers) -> None:
    rounds = Rounds(peers, "2 in flight")
    assert not rounds.runs
    assert len(rounds.left_out) == 6


@pytest.mark.spark
@pytest.mark.parametrize(
    "kind",
    [
        "Avro, 50,000",
        pytest.param("upsert, Arrow, 50,000", marks=pytest.mark.long),
    ],
)
def test_tidemark_in_other_ways_writes_each_record(peers: Peers, kind: str) -> None:
    rounds = Rounds(peers, kind)
    rounds.take(1)
    assert [len(runs) for runs in rounds.runs.values()] == [1]
    assert not rounds.left_out
