"""Keys that Airflow's own hooks know have their effect here too, or are refused by name."""

import inspect
import re
from typing import Any

import pytest

from tidemark.kafka.config import kafka_config
from tidemark.postgres.errors import CloudConnectionRefused
from tidemark.postgres.parameters import IAM, TAKEN, WITHOUT_MEANING, postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionKeysRefused
from tidemark.tokens import clouds
from tidemark.tokens.callbacks import LISTS, with_oauth

OIDC = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "OIDC"}


def kafka(**extra: object) -> Connection:
    return Connection("k", "kafka", extra={"bootstrap.servers": "k:9092", **extra})


def test_each_key_of_the_postgres_hook_is_taken_or_refused() -> None:
    """G134: what it reads of the extra for itself; the others it hands to libpq."""
    from airflow.providers.postgres.hooks import postgres

    read = set(re.findall(r"extra_dejson\.get\(\s*[\"']([^\"']+)", inspect.getsource(postgres)))
    known = read | postgres.PostgresHook.ignored_extra_options
    assert {"iam", "redshift", "aws_conn_id", "azure_conn_id"} <= known
    for key in known.difference(TAKEN, WITHOUT_MEANING, {IAM}):
        with pytest.raises((ConnectionKeysRefused, CloudConnectionRefused)) as refused:
            postgres_parameters(Connection("w", "postgres", "db", schema="d", extra={key: True}))
        assert key in (*getattr(refused.value, "keys", ()), getattr(refused.value, "key", ""))


def test_each_callback_of_the_kafka_hook_is_refused_but_the_one_that_makes_tokens() -> None:
    """G134: a client of ours has its own, or none."""
    from airflow.providers.apache.kafka.hooks.base import CALLBACK_CONFIG_KEYS

    assert "oauth_cb" in CALLBACK_CONFIG_KEYS
    for key in {*CALLBACK_CONFIG_KEYS} - {"oauth_cb"}:
        with pytest.raises(ConnectionKeysRefused) as refused:
            kafka_config(kafka(**{key: "mine.auth.make"}))
        assert refused.value.keys == (key,)


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize(
    "servers",
    [
        "b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098",
        "b-1.a.b.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.a.b.c2.kafka.eu-west-1.amazonaws.com",
        "boot-abcde1.c2.kafka-serverless.us-east-1.amazonaws.com:9098",
        "b-1.a.b.c2.kafka.cn-north-1.amazonaws.com.cn:9098",
    ],
)
def test_amazon_gets_the_token_that_the_kafka_hook_makes(
    key: str, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B24, G134: by the same function of Amazon's, for the same region."""
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    asked: list[str] = []

    def made(region: str) -> tuple[str, int]:
        asked.append(region)
        return "token", 2_000_000_000_000

    signer = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider.generate_auth_token"
    monkeypatch.setattr(signer, made)
    extra: dict[str, Any] = {"bootstrap.servers": servers, key: "OAUTHBEARER"}
    theirs = dict(extra)
    KafkaBaseHook()._maybe_add_msk_iam_oauth(theirs, servers)
    ours = with_oauth(kafka_config(kafka(**extra)))
    assert ours["oauth_cb"](None) == theirs["oauth_cb"]("") == ("token", 2_000_000_000)
    assert asked[0] == asked[1]


def test_the_kafka_hook_reads_the_list_of_callbacks_that_tidemark_reads() -> None:
    from airflow.providers.apache.kafka.hooks import base

    option = (base.KAFKA_COMMON_CONFIG_SECTION, base.CALLBACK_ALLOWLIST_CONFIG_OPTION)
    assert option in LISTS


def test_the_scope_of_azures_token_is_the_postgres_hooks() -> None:
    from airflow.providers.postgres.hooks.postgres import PostgresHook

    assert PostgresHook.default_azure_oauth_scope == clouds.AZURE_SCOPE


def test_a_token_that_the_client_fetches_itself_is_taken() -> None:
    assert kafka_config(kafka(**OIDC))["sasl.oauthbearer.method"] == "OIDC"
