"""The local stack does what the fixtures and the users of `tidemark local` rely on."""

import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.browsed import SCREENSHOTS
from tests.support.topics import create_topic

from tidemark_local import daemon
from tidemark_local._broker import LocalBroker, archive_of
from tidemark_local._folder import Folder
from tidemark_local._jars import kafka_jars
from tidemark_local.daemon import marked
from tidemark_local.postgres import Postgres
from tidemark_local.stack import LocalStack
from tidemark_local.watch import Watch


def ask(parameters: dict[str, Any], statement: str) -> Any:
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a port that is taken."""
    monkeypatch.setattr(daemon, "FREED_SECONDS", 0)


def do(parameters: dict[str, Any], statement: str) -> None:
    with closing(psycopg2.connect(**parameters)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def test_up_again_starts_nothing(stack: LocalStack) -> None:
    assert stack.up(["kafka", "postgres"]) == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc shows what is mapped")
def test_the_broker_maps_the_archive_that_the_installation_made(stack: LocalStack) -> None:
    archive = archive_of(kafka_jars(Watch()))
    assert archive.exists(), "scripts/bootstrap makes it"
    again = "made by another Java: python -m tidemark_local._broker_archive"
    assert str(archive) in Path(f"/proc/{stack.kafka.pid}/maps").read_text(), again


def seen(folder: Path) -> Iterator[str]:
    """What another account of the machine can read in it, if it knows the names."""
    for path in folder.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
            yield from seen(path)
        elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
            yield path.name


def test_other_accounts_read_nothing_of_a_stack(stack: LocalStack) -> None:
    """G133: logs and records, which pass by here, are the developer's own."""
    stack.folder.private(SCREENSHOTS)  # tests of pages may have made it
    assert {*seen(stack.folder.root)} <= {".gitignore", "lock", "kept.lock"}


def test_each_test_has_a_database_of_its_own(warehouse: dict[str, Any]) -> None:
    assert ask(warehouse, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def test_a_database_is_given_on_old_and_new_postgres(any_warehouse: dict[str, Any]) -> None:
    assert int(ask(any_warehouse, "SHOW server_version_num")) // 10_000 in {15, 18}


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_postgres_keeps_what_it_acknowledged(stack: LocalStack, setting: str) -> None:
    assert ask(stack.postgres.parameters(), f"SHOW {setting}") == "on"


def test_a_connection_costs_no_stretching_of_its_random_password(stack: LocalStack) -> None:
    assert ask(stack.postgres.parameters(), "SHOW scram_iterations") == "1"


def test_postgres_refuses_a_wrong_password(stack: LocalStack) -> None:
    wrong = stack.postgres.parameters() | {"password": "wrong"}
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(**wrong)


def test_the_role_of_one_database_may_not_enter_the_other(stack: LocalStack) -> None:
    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
        psycopg2.connect(**stack.postgres.parameters("airflow", "tidemark"))


def test_the_broker_has_transactions(kafka: str, topic: Callable[..., str], group: str) -> None:
    name = topic(partitions=1)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": group})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(name, b"never seen")
    producer.abort_transaction(120)
    producer.begin_transaction()
    producer.produce(name, b"seen")
    producer.commit_transaction(120)
    assert first_value(kafka, name, group) == b"seen"


def first_value(kafka: str, name: str, group: str) -> bytes | None:
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": group})) as consumer:
        consumer.assign([TopicPartition(name, 0, 0)])
        message = consumer.poll(120)
        return message.value() if message else None


def test_a_mistyped_topic_is_not_made(admin: AdminClient) -> None:
    told = admin.list_topics("no-such-topic").topics["no-such-topic"]
    assert told.error is not None
    assert "no-such-topic" not in admin.list_topics().topics


def test_postgres_stopped_at_once_comes_back_on_its_port_with_its_data(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "state")
    folder.create()
    server = Postgres(folder)
    try:
        server.start()
        before = server.parameters()
        do(before, "CREATE TABLE kept AS SELECT 42 AS answer")
        server.stop("immediate")
        assert server.pid is None
        assert server.start()
        assert server.parameters() == before
        assert ask(before, "SELECT answer FROM kept") == 42
    finally:
        server.stop()
        server.erase()


def test_a_killed_postgres_is_recovered_although_its_pid_file_is_lost(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "state")
    folder.create()
    server = Postgres(folder)
    try:
        server.start()
        first = server.pid
        (folder.root / "pids" / "postgres.json").unlink()
        assert Postgres(folder).start()
        assert server.pid not in {first, None}
        assert ask(server.parameters(), "SELECT 1") == 1
    finally:
        server.stop()
        server.erase()


@pytest.mark.long
def test_a_killed_broker_starts_again_with_what_it_acknowledged(tmp_path: Path, group: str) -> None:
    folder = Folder(tmp_path / "state")
    folder.create()
    broker = LocalBroker(folder)
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create_topic(admin, NewTopic("kept", 1, 1))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("kept", b"acknowledged")
        assert producer.flush(120) == 0
        broker.stop(signal.SIGKILL)
        assert broker.start()
        assert first_value(broker.bootstrap, "kept", group) == b"acknowledged"
    finally:
        broker.stop()


@pytest.mark.usefixtures("impatient")
def test_a_broker_whose_port_is_taken_while_it_starts_runs_on_another(tmp_path: Path) -> None:
    thieves: list[socket.socket] = []

    class Robbed(LocalBroker):
        def _write_properties(self) -> Path:
            if not thieves:
                port = int(self.bootstrap.rpartition(":")[2])
                thieves.append(socket.create_server(("127.0.0.1", port)))
            return super()._write_properties()

    folder = Folder(tmp_path / "state")
    folder.create()
    broker = Robbed(folder)
    try:
        broker.start()
        [thief] = thieves
        assert broker.bootstrap != "{}:{}".format(*thief.getsockname())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create_topic(admin, NewTopic("made", 1, 1))
        thief.close()
    finally:
        broker.stop()


@pytest.mark.usefixtures("impatient")
def test_a_postgres_whose_port_is_taken_while_it_starts_runs_on_another(tmp_path: Path) -> None:
    thieves: list[socket.socket] = []

    class Robbed(Postgres):
        def _launch(self, *given: Any) -> None:
            if not thieves:
                thieves.append(socket.create_server(("127.0.0.1", self.port)))
            super()._launch(*given)

    folder = Folder(tmp_path / "state")
    folder.create()
    server = Robbed(folder)
    try:
        server.start()
        [thief] = thieves
        assert server.port != thief.getsockname()[1]
        assert ask(server.parameters(), "SELECT 1") == 1
        thief.close()
    finally:
        server.stop()
        server.erase()


def test_down_leaves_no_process_and_erase_no_file(tmp_path: Path) -> None:
    local = LocalStack(tmp_path / "state", tmp_path)
    try:
        assert local.up(["postgres"]) == ["postgres"]
        kept = local.postgres.parameters()
        local.down()
        assert marked(local.folder) == []
        assert local.up(["postgres"]) == ["postgres"]
        assert local.postgres.parameters() == kept
    finally:
        local.down(erase=True)
    assert marked(local.folder) == []
    assert not local.folder.root.exists()
