"""Keys that Airflow's own hooks know, and that have no effect here, are refused by name."""

import inspect
import re

import pytest

from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import OAuthMethodMissing
from tidemark.postgres.parameters import TAKEN, WITHOUT_MEANING, postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionKeysRefused

OIDC = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "OIDC"}


def kafka(**extra: object) -> Connection:
    return Connection("k", "kafka", extra={"bootstrap.servers": "k:9092", **extra})


def test_each_key_of_the_postgres_hook_is_taken_or_refused() -> None:
    """G134: what it reads of the extra for itself; the others it hands to libpq."""
    from airflow.providers.postgres.hooks import postgres

    read = set(re.findall(r"extra_dejson\.get\(\s*[\"']([^\"']+)", inspect.getsource(postgres)))
    known = read | postgres.PostgresHook.ignored_extra_options
    assert {"iam", "redshift", "aws_conn_id", "azure_conn_id"} <= known
    for key in known.difference(TAKEN, WITHOUT_MEANING):
        with pytest.raises(ConnectionKeysRefused) as refused:
            postgres_parameters(Connection("w", "postgres", "db", schema="d", extra={key: True}))
        assert refused.value.keys == (key,)


def test_each_callback_of_the_kafka_hook_is_refused() -> None:
    """G134: it would be imported by a name that the connection chooses."""
    from airflow.providers.apache.kafka.hooks.base import CALLBACK_CONFIG_KEYS

    assert "oauth_cb" in CALLBACK_CONFIG_KEYS
    for key in CALLBACK_CONFIG_KEYS:
        with pytest.raises(ConnectionKeysRefused) as refused:
            kafka_config(kafka(**{key: "mine.auth.make"}))
        assert refused.value.keys == (key,)


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_token_that_the_kafka_hook_makes_without_a_key_is_missed(key: str) -> None:
    """G134: as for Amazon MSK, which it knows by its address; the client waits for ever."""
    from airflow.providers.apache.kafka.hooks.base import MSK_BOOTSTRAP_SERVERS_REGEX

    msk = "b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098"
    assert MSK_BOOTSTRAP_SERVERS_REGEX.search(msk)
    with pytest.raises(OAuthMethodMissing):
        kafka_config(kafka(**{"bootstrap.servers": msk, key: "OAUTHBEARER"}))


def test_a_token_that_the_client_fetches_itself_is_taken() -> None:
    assert kafka_config(kafka(**OIDC))["sasl.oauthbearer.method"] == "OIDC"
