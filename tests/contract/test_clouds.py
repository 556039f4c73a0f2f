"""The clouds' callbacks with the clouds' own libraries, and services of the test's own behind them.

What a token must hold is read from the documents of each cloud; Amazon's are signed without a
request, Azure's and Google's come from the service that a machine asks for its identity.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.http_server import served

from tidemark.errors import MissingExtra
from tidemark.tokens import clouds
from tidemark.tokens.callbacks import with_oauth, with_password

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LIFE = 3600
HOST = "db.c1x2.eu-west-1.rds.amazonaws.com"
PARAMETERS = {
    "host": HOST, "port": 5432, "user": "me", "dbname": "d",
}  # fmt: skip


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """No identity of another test is known."""
    made = (clouds._rds_client, clouds._azure_credential, clouds._google_credentials)
    for one in made:
        one.cache_clear()
    yield
    for one in made:
        one.cache_clear()


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose identity stands in the variables of Amazon's libraries."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


def answering(answer: Callable[[str, Mapping[str, str]], Any]) -> type[BaseHTTPRequestHandler]:
    """A handler that answers each GET with JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path, dict(self.headers))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    return Handler


def test_a_password_for_amazon_rds_is_signed_for_its_host_region_and_user(amazon: None) -> None:
    """B24."""
    path = clouds.postgres_callback(HOST)
    made = with_password(PARAMETERS | {"password_cb": path})["password"]
    url = urlsplit(f"https://{made}")
    said = {key: text for key, [text] in parse_qs(url.query).items()}
    assert (url.hostname, url.port) == (HOST, 5432)
    assert (said["Action"], said["DBUser"]) == ("connect", "me")
    assert said["X-Amz-Credential"].startswith(f"{KEY}/")
    assert said["X-Amz-Credential"].endswith("/eu-west-1/rds-db/aws4_request")
    assert said["X-Amz-Expires"] == "900"
    assert SECRET not in made


def test_a_token_for_amazon_msk_is_signed_for_its_region(amazon: None) -> None:
    """B24."""
    keys = clouds.kafka_keys("b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098")
    text, until = with_oauth(keys)["oauth_cb"]("us-east-1")
    url = urlsplit(base64.urlsafe_b64decode(text + "==").decode())
    said = {key: one for key, [one] in parse_qs(url.query).items()}
    assert url.hostname == "kafka.us-east-1.amazonaws.com"
    assert said["Action"] == "kafka-cluster:Connect"
    assert said["X-Amz-Credential"].startswith(f"{KEY}/")
    assert 600 < until - time() < 1000


def test_a_password_for_azure_is_the_token_of_the_machines_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, Mapping[str, str]]] = []

    def answer(path: str, headers: Mapping[str, str]) -> dict[str, str]:
        asked.append((path, headers))
        until = str(int(time()) + LIFE)
        return {"access_token": "azures", "expires_on": until, "token_type": "Bearer",
                "resource": "r"}  # fmt: skip

    with served(answering(answer)) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "mine")
        path = clouds.postgres_callback("one.postgres.database.azure.com")
        made = [with_password(PARAMETERS | {"password_cb": path})["password"] for _ in range(2)]
    assert made == ["azures"] * 2
    [(where, headers)] = asked  # the library keeps what lives on
    assert parse_qs(urlsplit(where).query)["resource"] == [
        "https://ossrdbms-aad.database.windows.net"
    ]
    assert {key.lower(): text for key, text in headers.items()}["x-identity-header"] == "mine"


def test_a_token_for_googles_kafka_has_the_form_that_its_brokers_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Google's page on the authentication of Kafka clients says it: three parts in base64."""

    def answer(path: str, _: Mapping[str, str]) -> Any:
        if "/token" in path:
            return {"access_token": "googles", "expires_in": LIFE, "token_type": "Bearer"}
        if "service-accounts" in path:
            return {"email": "me@project", "scopes": ["s"], "aliases": []}
        return "project"

    with served(answering(answer)) as url:
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"):
            monkeypatch.setenv(name, urlsplit(url).netloc)
        monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        keys = clouds.kafka_keys("bootstrap.c.europe-west1.managedkafka.p.cloud.goog:9092")
        text, until = with_oauth(keys)["oauth_cb"](None)
    header, claims, token = (
        base64.urlsafe_b64decode(one + "==").decode() for one in text.split(".")
    )
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert token == "googles"
    said = json.loads(claims)
    assert (said["iss"], said["scope"], said["sub"]) == ("Google", "kafka", "me@project")
    assert said["exp"] == until
    assert abs(until - time() - LIFE) < 60


@pytest.mark.parametrize(
    ("module", "extra", "call"),
    [
        ("aws_msk_iam_sasl_signer", "aws", lambda: clouds.msk("us-east-1")),
        ("boto3", "aws", lambda: clouds.rds(PARAMETERS)),
        ("azure.identity", "azure", lambda: clouds.azure({})),
        ("google.auth", "google", lambda: clouds.google(None)),
    ],
)
def test_a_library_that_is_missing_is_named(
    module: str, extra: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as missing:
        call()
    assert missing.value.extra == extra
    assert module in missing.value.cause
