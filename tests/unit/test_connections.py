import json
from collections.abc import Callable
from configparser import ConfigParser
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg2.extensions import make_dsn, parse_dsn

from tidemark.check._encryption import of_kafka, of_postgres, of_registry
from tidemark.check.findings import Doubtful
from tidemark.kafka.config import OVERRIDDEN, kafka_config
from tidemark.kafka.errors import (
    KerberosLoginRefused,
)
from tidemark.postgres.parameters import TAKEN, postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.errors import (
    ConnectionIncomplete,
    ConnectionKeysRefused,
    ConnectionNotKnown,
    ConnectionUnreadable,
)

SECRET = "hunter2"
Look = Callable[[Connection], str]
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
    assert Connection.from_airflow(SimpleNamespace(**fields), ConfigParser()) == POSTGRES


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


@pytest.mark.parametrize(
    "key",
    [
        "plugin.library.paths", "ssl.providers", "ssl.engine.location", "error_cb",
        "sasl.kerberos.kinit.cmd", "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.metadata.authentication.type", "debug", "SSL.PROVIDERS", "no.such.key",
    ],
)  # fmt: skip
def test_a_key_that_is_not_known_to_be_harmless_is_refused(key: str) -> None:
    extra = {"bootstrap.servers": "k:9092", key: "/tmp/theirs"}
    with pytest.raises(ConnectionKeysRefused) as refused:
        kafka_config(Connection("k", "kafka", extra=extra))
    assert refused.value.keys == (key,)


@pytest.mark.parametrize("key", ["sasl.kerberos.principal", "sasl.kerberos.keytab"])
def test_a_kerberos_login_is_no_part_of_a_command(key: str) -> None:
    plain = {"bootstrap.servers": "k:9092", key: "me/db@REALM.ORG"}
    assert kafka_config(Connection("k", "kafka", extra=plain))[key] == "me/db@REALM.ORG"
    with pytest.raises(KerberosLoginRefused) as refused:
        kafka_config(Connection("k", "kafka", extra={**plain, key: 'a" $(id) "'}))
    assert refused.value.key == key


def test_a_kafka_connection_needs_bootstrap_servers() -> None:
    with pytest.raises(ConnectionIncomplete):
        kafka_config(Connection("k", "kafka"))


def test_postgres_gets_keepalives() -> None:
    found = postgres_parameters(POSTGRES)
    assert (found["host"], found["port"], found["dbname"]) == ("db", 5433, "warehouse")
    assert (found["user"], found["password"]) == ("me", SECRET)
    assert found["keepalives"] == 1
    assert int(found["tcp_user_timeout"]) <= 60_000


def test_keys_of_the_extra_reach_postgres() -> None:
    extra = {"sslmode": "verify-full", "channel_binding": "require", "cursor": "realdictcursor"}
    found = postgres_parameters(Connection("w", "postgres", "db", schema="d", extra=extra))
    assert (found["sslmode"], found["channel_binding"]) == ("verify-full", "require")
    assert "cursor" not in found  # of Airflow's own hook
    assert found["port"] == 5432


@pytest.mark.parametrize("key", ["redshift", "service", "sslmodes", "dbname"])
def test_a_key_that_would_have_no_effect_on_postgres_is_refused(key: str) -> None:
    extra = {"sslmode": "verify-full", key: "x"}
    with pytest.raises(ConnectionKeysRefused) as refused:
        postgres_parameters(Connection("w", "postgres", "db", schema="d", extra=extra))
    assert refused.value.keys == (key,)


def test_libpq_knows_every_key_that_is_taken() -> None:
    extra = dict.fromkeys(TAKEN, "1")
    parameters = postgres_parameters(Connection("w", "postgres", "db", schema="d", extra=extra))
    assert parse_dsn(make_dsn(None, **parameters)).keys() >= set(TAKEN)


@pytest.mark.parametrize("missing", ["host", "schema"])
def test_postgres_needs_host_and_database(missing: str) -> None:
    fields: dict[str, Any] = {"host": "db", "schema": "d"} | {missing: None}
    with pytest.raises(ConnectionIncomplete) as refused:
        postgres_parameters(Connection("w", "postgres", **fields))
    assert refused.value.missing.startswith(missing)


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


@pytest.mark.parametrize(
    ("look", "found"),
    [
        (of_kafka, kafka()),
        (of_kafka, kafka(security_protocol="SASL_PLAINTEXT")),
        (of_kafka, kafka(security_protocol="ssl", enable_ssl_certificate_verification=False)),
        (of_kafka, kafka(security_protocol="ssl", ssl_endpoint_identification_algorithm="none")),
        (of_kafka, kafka(bootstrap_servers="localhost:1,far:1")),
        (of_postgres, POSTGRES),
        (of_postgres, replace(POSTGRES, extra={"sslmode": "require"})),
        (of_postgres, replace(POSTGRES, host="127.0.0.1,far")),
        (of_registry, Connection("r", "http", "registry", 8081)),
    ],
)
def test_what_others_could_read_or_change_is_doubtful(look: Look, found: Connection) -> None:
    with pytest.raises(Doubtful):
        look(found)


@pytest.mark.parametrize(
    ("look", "found"),
    [
        (of_kafka, kafka(security_protocol="SASL_SSL")),
        (of_kafka, kafka(bootstrap_servers="localhost:1, 127.0.0.1:2, [::1]:3")),
        (of_postgres, replace(POSTGRES, extra={"sslmode": "verify-full"})),
        (of_postgres, replace(POSTGRES, host="/var/run/postgresql")),
        (of_registry, Connection("r", "http", "https://registry")),
        (of_registry, Connection("r", "http", "127.0.0.1", 8081)),
    ],
)
def test_what_is_encrypted_or_stays_on_this_machine_is_not(look: Look, found: Connection) -> None:
    assert look(found)
