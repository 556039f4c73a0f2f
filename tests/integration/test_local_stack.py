"""The local stack does what the fixtures and the users of `tidemark local` rely on."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.local.stack import LocalStack


def ask(parameters: dict[str, Any], statement: str) -> Any:
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_up_again_starts_nothing(stack: LocalStack) -> None:
    assert stack.up(["kafka", "postgres"]) == []


def test_each_test_has_a_database_of_its_own(warehouse: dict[str, Any]) -> None:
    assert ask(warehouse, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def test_a_database_is_given_on_old_and_new_postgres(any_warehouse: dict[str, Any]) -> None:
    assert int(ask(any_warehouse, "SHOW server_version_num")) // 10_000 in {15, 18}


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_postgres_keeps_what_it_acknowledged(stack: LocalStack, setting: str) -> None:
    assert ask(stack.postgres.parameters(), f"SHOW {setting}") == "on"


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
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"never seen")
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(name, b"seen")
    producer.commit_transaction(30)
    assert first_value(kafka, name, group) == b"seen"


def first_value(kafka: str, name: str, group: str) -> bytes | None:
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": group})) as consumer:
        consumer.assign([TopicPartition(name, 0, 0)])
        message = consumer.poll(30)
        return message.value() if message else None


def test_a_mistyped_topic_is_not_made(admin: AdminClient) -> None:
    assert "no-such-topic" not in admin.list_topics("no-such-topic").topics or (
        admin.list_topics("no-such-topic").topics["no-such-topic"].error is not None
    )
