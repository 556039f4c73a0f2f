"""The local stack does what the fixtures and the users of `tidemark local` rely on."""

import signal
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

from tidemark_local._broker import LocalBroker
from tidemark_local._folder import Folder
from tidemark_local.daemon import marked
from tidemark_local.postgres import Postgres
from tidemark_local.stack import LocalStack


def ask(parameters: dict[str, Any], statement: str) -> Any:
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_up_again_starts_nothing(stack: LocalStack) -> None:
    assert stack.up(["kafka", "postgres"]) == []


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


def test_postgres_refuses_a_wrong_password(stack: LocalStack) -> None:
    wrong = stack.postgres.parameters() | {"password": "wrong"}
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(**wrong)


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


@pytest.mark.long
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
