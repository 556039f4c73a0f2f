import json
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.kafka.config import OVERRIDDEN, kafka_config
from tidemark.kafka.errors import BootstrapServersMissing, KafkaConnectionRunsCode
from tidemark.postgres.cases import PostgresConnectionIncomplete
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionNotKnown, ConnectionUnreadable

SECRET = "hunter2"
POSTGRES = Connection("w", "postgres", "db", 5433, "me", SECRET, "warehouse")


def of(text: str) -> Connection:
    """The connection `w` of an environment."""
    return Connection.from_env("w", {"AIRFLOW_CONN_W": text})


def test_json_is_read() -> None:
    found = of(json.dumps({"conn_type": "postgres", "host": "db", "port": "5433", "login": "me",
                           "password": SECRET, "schema": "warehouse"}))  # fmt: skip
    assert found == POSTGRES


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_uri_is_read(scheme: str) -> None:
    assert of(f"{scheme}://me:{SECRET}@db:5433/warehouse") == POSTGRES


def test_a_uri_is_unquoted() -> None:
    found = of("postgres://a%40b:p%2Fq@db/ware%20house?sslmode=require")
    assert (found.login, found.password, found.schema) == ("a@b", "p/q", "ware house")
    assert found.extra == {"sslmode": "require"}


def test_the_extra_of_a_uri_may_be_json() -> None:
    extra = "%7B%22bootstrap.servers%22%3A%20%22k%3A9092%22%7D"
    assert of(f"kafka://?__extra__={extra}").extra == {"bootstrap.servers": "k:9092"}


@pytest.mark.parametrize("extra", [{"a": 1}, '{"a": 1}'])
def test_extra_is_an_object_or_its_text(extra: Any) -> None:
    assert of(json.dumps({"conn_type": "kafka", "extra": extra})).extra == {"a": 1}


def test_a_missing_connection_names_its_variable() -> None:
    with pytest.raises(ConnectionNotKnown) as missing:
        Connection.from_env("w", {})
    assert missing.value.fields() == {"conn_id": "w", "variable": "AIRFLOW_CONN_W"}


@pytest.mark.parametrize("text", [f"{{{SECRET}", SECRET, f"x://me:{SECRET}@db:port/"])
def test_a_text_that_cannot_be_read_is_not_shown(text: str) -> None:
    with pytest.raises(ConnectionUnreadable) as refused:
        of(text)
    assert refused.value.variable == "AIRFLOW_CONN_W"
    assert SECRET not in str(refused.value)


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(Connection("w", "kafka", password=SECRET, extra={"sasl.password": SECRET}))
    assert SECRET not in shown


def test_a_connection_survives_the_environment() -> None:
    name, text = POSTGRES.to_env()
    assert Connection.from_env("w", {name: text}) == POSTGRES


def test_airflows_own_object_is_copied() -> None:
    fields: dict[str, Any] = {
        "conn_id": "w", "conn_type": "postgres", "host": "db", "port": 5433, "login": "me",
        "password": SECRET, "schema": "warehouse", "extra_dejson": {},
    }  # fmt: skip
    assert Connection.from_airflow(SimpleNamespace(**fields)) == POSTGRES


def kafka(**extra: Any) -> Connection:
    """A Kafka connection; underscores are dots."""
    dotted = {key.replace("_", "."): value for key, value in extra.items()}
    return Connection("k", "kafka", extra={"bootstrap.servers": "k:9092"} | dotted)


def test_librdkafka_gets_texts() -> None:
    found = kafka_config(kafka(socket_keepalive_enable=True, fetch_max_bytes=5))
    assert found == {
        "bootstrap.servers": "k:9092",
        "socket.keepalive.enable": "true",
        "fetch.max.bytes": "5",
    }


@pytest.mark.parametrize("key", sorted(OVERRIDDEN))
def test_what_exactness_rests_on_is_not_taken_from_the_connection(key: str) -> None:
    extra = {"bootstrap.servers": "k:9092", key: "x"}
    assert key not in kafka_config(Connection("k", "kafka", extra=extra))


def test_a_key_that_runs_foreign_code_is_refused() -> None:
    with pytest.raises(KafkaConnectionRunsCode) as refused:
        kafka_config(kafka(plugin_library_paths="/tmp/evil.so"))
    assert refused.value.keys == ("plugin.library.paths",)


def test_a_kafka_connection_needs_bootstrap_servers() -> None:
    with pytest.raises(BootstrapServersMissing):
        kafka_config(Connection("k", "kafka"))


def test_postgres_gets_keepalives() -> None:
    found = postgres_parameters(POSTGRES)
    assert (found["host"], found["port"], found["dbname"]) == ("db", 5433, "warehouse")
    assert (found["user"], found["password"]) == ("me", SECRET)
    assert found["keepalives"] == 1
    assert int(found["tcp_user_timeout"]) <= 60_000


def test_only_known_keys_of_the_extra_reach_postgres() -> None:
    extra = {"sslmode": "verify-full", "cursor": "realdictcursor"}
    found = postgres_parameters(Connection("w", "postgres", "db", schema="d", extra=extra))
    assert found["sslmode"] == "verify-full"
    assert "cursor" not in found
    assert found["port"] == 5432


@pytest.mark.parametrize("missing", ["host", "schema"])
def test_postgres_needs_host_and_database(missing: str) -> None:
    fields: dict[str, Any] = {"host": "db", "schema": "d"} | {missing: None}
    with pytest.raises(PostgresConnectionIncomplete) as refused:
        postgres_parameters(Connection("w", "postgres", **fields))
    assert {"host": refused.value.host, "schema": refused.value.schema} == fields


@pytest.mark.parametrize(
    "text",
    [
        '{"conn_type": "postgres", "host": "a,b", "port": "5433,5434", "schema": "d"}',
        '{"conn_type": "postgres", "host": "a,b", "schema": "d", "extra": {"port": "5433,5434"}}',
        "postgres://a:5433,b:5434/d",
    ],
)
def test_of_several_servers_the_primary_is_found(text: str) -> None:
    found = postgres_parameters(of(text))
    assert (found["host"], found["port"], found["dbname"]) == ("a,b", "5433,5434", "d")
    assert found["target_session_attrs"] == "read-write"
    name, env = of(text).to_env()
    assert postgres_parameters(Connection.from_env("w", {name: env})) == found


def test_a_connection_says_which_of_several_servers_it_wants() -> None:
    found = postgres_parameters(of("postgres://me:p%2Fq@a,b/d?target_session_attrs=any"))
    assert (found["host"], found["port"]) == ("a,b", "5432,5432")
    assert (found["password"], found["target_session_attrs"]) == ("p/q", "any")


def test_one_server_is_taken_as_it_is() -> None:
    assert "target_session_attrs" not in postgres_parameters(POSTGRES)
