"""Token callbacks: which are called, by whom they are listed, and what they may return."""

import ast
import logging
import traceback
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support import callbacks

from tidemark.errors import TidemarkError
from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import CallbackNotUsed, OAuthMethodMissing
from tidemark.postgres.errors import CloudConnectionRefused, IamHostUnknown
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, IamUnreadable
from tidemark.tokens import clouds
from tidemark.tokens.callbacks import LISTED, with_oauth, with_password
from tidemark.tokens.errors import (
    CallbackAnswerUnfit,
    CallbackFailed,
    CallbackNotImported,
    CallbackNotListed,
    TokenExpired,
)

PACKAGE = Path(clouds.__file__).parents[1]
SECRET = "hunter2"
HERE = "tests.support.callbacks"
KAFKA = {"bootstrap.servers": "k:9092", "sasl.mechanism": "OAUTHBEARER"}
POSTGRES = Connection("w", "postgres", "db", 5433, "me", None, "warehouse")
MSK = "b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098"
GOOGLE = "bootstrap.one.europe-west1.managedkafka.project.cloud.goog:9092"
RDS = "db.c1x2.eu-west-1.rds.amazonaws.com"


def kafka(**extra: str) -> Connection:
    """A Kafka connection that logs in by tokens; underscores are dots, but for `oauth_cb`."""
    dotted = {key.replace("_", ".").replace(".cb", "_cb"): text for key, text in extra.items()}
    return Connection("k", "kafka", extra=KAFKA | dotted)


@pytest.mark.parametrize("key", ["oauth_cb", "password_cb"])
@pytest.mark.parametrize("path", ["os.system", f"{HERE}.token ", f"{HERE}.tok", "", None, ["a.b"]])
def test_a_callback_that_is_not_listed_is_refused_where_a_connection_is_read(
    key: str, path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G220: of the environment as of Airflow."""
    monkeypatch.setenv(LISTED, f"{HERE}.token,{HERE}.password")
    named = replace(POSTGRES, extra={key: path})
    with pytest.raises(CallbackNotListed):
        Connection.from_env("w", dict([named.to_env()]))
    conf = ConfigParser()
    conf["tidemark"] = {"token_callbacks": f"{HERE}.token"}
    with pytest.raises(CallbackNotListed):
        Connection.from_airflow(of_airflow(named), conf)


@pytest.mark.parametrize(
    ("section", "option"),
    [("tidemark", "token_callbacks"), ("apache_kafka", "callback_allowlist")],
)
def test_whoever_runs_airflow_lists_callbacks(section: str, option: str) -> None:
    conf = ConfigParser()
    conf[section] = {option: f"a.b,\n {HERE}.token ,c.d"}
    named = replace(POSTGRES, extra={"oauth_cb": f"{HERE}.token"})
    assert Connection.from_airflow(of_airflow(named), conf) == named


def of_airflow(connection: Connection) -> Any:
    """The same as Airflow has it."""
    names = ("conn_id", "conn_type", "host", "port", "login", "password", "schema")
    fields = {name: getattr(connection, name) for name in names}
    return SimpleNamespace(**fields, extra_dejson=dict(connection.extra))


def test_a_variable_lists_callbacks_for_drivers_and_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LISTED, f"a.b, {HERE}.password")
    named = replace(POSTGRES, extra={"password_cb": f"{HERE}.password"})
    assert Connection.from_env("w", dict([named.to_env()])) == named


def test_a_callback_is_called_for_each_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """B24: of the first one, which is made where a fault is told, no second is made."""
    made = answers(monkeypatch, "token", *((f"t{n}", time() + 60) for n in range(3)))
    found = with_oauth(kafka_config(kafka(oauth_cb=f"{HERE}.token", sasl_oauthbearer_config="x")))
    assert [found["oauth_cb"]("x")[0] for _ in range(3)] == ["t0", "t1", "t2"]
    assert made == ["x", "x", "x"]


def test_a_password_is_made_for_each_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback knows the login, and no password that the connection has."""
    made = answers(monkeypatch, "password", "one", "two")
    extra = {"password_cb": f"{HERE}.password", "sslmode": "require"}
    parameters = postgres_parameters(replace(POSTGRES, password="old", extra=extra))
    assert [with_password(parameters)["password"] for _ in range(2)] == ["one", "two"]
    assert "password_cb" not in with_password(parameters | {"password_cb": f"{HERE}.steady"})
    assert (made[0]["host"], made[0]["port"], made[0]["user"]) == ("db", 5433, "me")
    assert "password" not in made[0]


def answers(monkeypatch: pytest.MonkeyPatch, name: str, *found: object) -> list[Any]:
    """The callback of that name returns or raises these; what it was given."""
    given: list[Any] = []
    left = iter(found)

    def callback(argument: Any) -> object:
        given.append(argument)
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(callbacks, name, callback)
    return given


WRONG: list[tuple[object, type[TidemarkError]]] = [
    (RuntimeError(SECRET), CallbackFailed),
    (SECRET, CallbackAnswerUnfit),
    ((SECRET,), CallbackAnswerUnfit),
    ([SECRET, 2e9], CallbackAnswerUnfit),
    ((SECRET.encode(), 2e9), CallbackAnswerUnfit),
    ((SECRET, str(2e9)), CallbackAnswerUnfit),
    ((SECRET, 2e12), CallbackAnswerUnfit),
    ((SECRET, float("nan")), CallbackAnswerUnfit),
    ((SECRET, 2e9, None), CallbackAnswerUnfit),
    ((SECRET, 2e9, "me", {"a": 1}), CallbackAnswerUnfit),
    ((SECRET, 2e9, "me", {}, 5), CallbackAnswerUnfit),
    (("", 2e9), CallbackAnswerUnfit),
    ((SECRET, 1e9), TokenExpired),
]


@pytest.mark.parametrize(("answer", "error"), WRONG)
def test_what_is_no_token_is_told_without_it(
    answer: object, error: type[TidemarkError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """G222: when a client is made, which would wait for it in silence."""
    answers(monkeypatch, "token", answer)
    with pytest.raises(error) as met:
        with_oauth({"oauth_cb": f"{HERE}.token"})
    assert SECRET not in "".join(traceback.format_exception(met.value))
    assert met.value.__context__ is None


@pytest.mark.parametrize(("answer", "error"), WRONG)
def test_a_token_that_does_not_come_later_leaves_the_one_before(
    answer: object,
    error: type[TidemarkError],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """G222: nothing is raised in librdkafka's thread, and it asks again soon."""
    answers(monkeypatch, "token", ("first", 2e9, "me", {"a": "b"}), answer, ("third", 2e9))
    callback: Callable[[None], tuple[Any, ...]] = with_oauth({"oauth_cb": f"{HERE}.token"})[
        "oauth_cb"
    ]
    callback(None)
    with caplog.at_level(logging.DEBUG):
        text, until, *others = callback(None)
    assert (text, others) == ("first", ["me", {"a": "b"}])
    assert 0 < until - time() < 30
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert SECRET not in caplog.text
    assert callback(None)[0] == "third"


@pytest.mark.parametrize("answer", [None, "", b"hunter2", (SECRET, 2e9), RuntimeError(SECRET)])
def test_what_is_no_password_is_told_without_it(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G222."""
    answers(monkeypatch, "password", answer)
    with pytest.raises((CallbackAnswerUnfit, CallbackFailed)) as met:
        with_password({"password_cb": f"{HERE}.password"})
    assert SECRET not in "".join(traceback.format_exception(met.value))
    assert met.value.__context__ is None


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("nowhere.token", "ModuleNotFoundError of nowhere"),
        (f"{HERE}.nobody", "AttributeError of nobody"),
        (f"{HERE}.wrong.x", f"ModuleNotFoundError of {HERE}.wrong"),
        ("token", "ValueError"),
        ("", "ValueError"),
    ],
)
def test_a_callback_that_is_not_there_is_named(path: str, cause: str) -> None:
    with pytest.raises(CallbackNotImported) as met:
        with_password({"password_cb": path})
    assert (met.value.path, met.value.cause) == (path, cause)


def test_each_client_of_kafka_is_made_with_its_callback() -> None:
    """G223."""
    made = [
        (node.func, node.args[0])
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and is_of_a_client(node.func, file)
    ]
    assert len(made) >= 6
    assert [ast.unparse(given) for _, given in made if not is_with_oauth(given)] == []


def is_of_a_client(function: ast.expr, file: Path) -> bool:
    """Whether it makes one: by its name, or as a class that is derived from one."""
    is_derived = "(AdminClient)" in file.read_text() and ast.unparse(function) == "super().__init__"
    return is_derived or ast.unparse(function) in {"Consumer", "Producer", "AdminClient"}


def is_with_oauth(given: ast.expr) -> bool:
    return isinstance(given, ast.Call) and ast.unparse(given.func) == "with_oauth"


def test_a_login_without_a_callback_is_as_it_was() -> None:
    assert with_password({"password": "x"}) == {"password": "x"}
    assert with_oauth({"sasl.password": "x"}) == {"sasl.password": "x"}


@pytest.mark.parametrize(
    "extra",
    [
        {"sasl.mechanism": "PLAIN"},
        {"sasl.oauthbearer.method": "oidc"},
        {"sasl.oauthbearer.method": "OIDC"},
    ],
)
def test_a_callback_that_nobody_would_call_is_refused(extra: dict[str, str]) -> None:
    both = KAFKA | {"oauth_cb": f"{HERE}.token"} | extra
    with pytest.raises(CallbackNotUsed):
        kafka_config(Connection("k", "kafka", extra=both))


@pytest.mark.parametrize(
    ("servers", "keys"),
    [
        (MSK, {"oauth_cb": "tidemark.tokens.clouds.msk", "sasl.oauthbearer.config": "us-east-1"}),
        (
            "boot-a.c2.kafka-serverless.cn-north-1.amazonaws.com.cn:9098",
            {"oauth_cb": "tidemark.tokens.clouds.msk", "sasl.oauthbearer.config": "cn-north-1"},
        ),
        (f"{MSK}, {MSK}", clouds.kafka_keys(MSK)),
        (GOOGLE, {"oauth_cb": "tidemark.tokens.clouds.google"}),
    ],
)
def test_a_clouds_own_brokers_get_its_tokens(servers: str, keys: Mapping[str, str]) -> None:
    """G221. The path can be imported."""
    found = kafka_config(kafka(bootstrap_servers=servers))
    assert {key: found[key] for key in keys} == keys
    assert callable(getattr(clouds, found["oauth_cb"].rpartition(".")[2]))


@pytest.mark.parametrize(
    "servers",
    [
        f"{MSK},evil:9092",
        f"{MSK},{GOOGLE}",
        f"{MSK},{MSK.replace('us-east-1', 'eu-west-1')}",
        "b-1.kafka.us-east-1.amazonaws.com.evil.org:9098",
        "evil.org/kafka.us-east-1.amazonaws.com:9098",
        "kafka.us-east-1.amazonaws.com@evil.org:9098",
        "managedkafka.cloud.goog.evil.org:9092",
        "cloud.goog:9092",
        "b-1.demo.\N{KELVIN SIGN}afka.us-east-1.amazonaws.com:9098",
    ],
)
def test_no_other_broker_gets_a_clouds_token(servers: str) -> None:
    """G221: a bearer's token is whoever's it was sent to."""
    with pytest.raises(OAuthMethodMissing):
        kafka_config(kafka(bootstrap_servers=servers))


def test_a_callback_that_is_named_goes_before_a_clouds() -> None:
    found = kafka_config(kafka(bootstrap_servers=MSK, oauth_cb=f"{HERE}.token"))
    assert found["oauth_cb"] == f"{HERE}.token"
    assert "sasl.oauthbearer.config" not in found


@pytest.mark.parametrize(
    ("host", "path"),
    [
        (RDS, "tidemark.tokens.clouds.rds"),
        ("db.cluster-ro-c1.us-gov-west-1.rds.amazonaws.com", "tidemark.tokens.clouds.rds"),
        ("db.c1.rds.cn-north-1.amazonaws.com.cn", "tidemark.tokens.clouds.rds"),
        ("one.postgres.database.azure.com", "tidemark.tokens.clouds.azure"),
    ],
)
@pytest.mark.parametrize("iam", [True, "true", "True"])
def test_with_iam_a_clouds_own_server_gets_its_token(host: str, path: str, iam: object) -> None:
    """G221."""
    connection = replace(POSTGRES, host=host, password="old", extra={"iam": iam})
    found = postgres_parameters(connection)
    assert (found["password_cb"], found.get("password")) == (path, None)


@pytest.mark.parametrize(
    ("host", "extra"),
    [
        ("db", {}),
        (f"{RDS},evil.org", {}),
        (f"{RDS}.evil.org", {}),
        (RDS, {"hostaddr": "10.0.0.1"}),
        ("postgres.database.azure.com.evil.org", {}),
    ],
)
def test_with_iam_no_other_server_gets_one(host: str, extra: dict[str, str]) -> None:
    """G221."""
    with pytest.raises(IamHostUnknown):
        postgres_parameters(replace(POSTGRES, host=host, extra={"iam": True, **extra}))


def test_without_iam_the_password_stands() -> None:
    found = postgres_parameters(replace(POSTGRES, host=RDS, password="old", extra={"iam": False}))
    assert found["password"] == "old"


@pytest.mark.parametrize("iam", [1, "yes", None, "x"])
def test_iam_is_true_or_false(iam: object) -> None:
    with pytest.raises(IamUnreadable):
        postgres_parameters(replace(POSTGRES, host=RDS, extra={"iam": iam}))


def test_with_iam_a_login_is_needed() -> None:
    with pytest.raises(ConnectionIncomplete):
        postgres_parameters(replace(POSTGRES, host=RDS, login=None, extra={"iam": True}))


@pytest.mark.parametrize("key", ["aws_conn_id", "azure_conn_id"])
def test_a_connection_to_a_cloud_is_refused_with_the_ways_that_there_are(key: str) -> None:
    """G134: never another identity than the connection says, in silence."""
    with pytest.raises(CloudConnectionRefused):
        postgres_parameters(replace(POSTGRES, host=RDS, extra={"iam": True, key: "mine"}))
