"""Token callbacks: what a connection's extra may name, and how it is called.

A dotted path travels to drivers and Spark's tasks, a token never: each process imports the function
and calls it for each of its logins, as the account that it runs as. Only what the installation
lists is imported: who may edit a connection does not choose what code runs.

What a callback returns, and the text of what it raises, stand in no error and no log.
"""

import logging
import math
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from time import time  # noqa: TID251 - a token's end is a time of the wall
from typing import Any, Protocol, TypeGuard

from tidemark.errors import TidemarkError
from tidemark.tokens.errors import (
    CallbackAnswerUnfit,
    CallbackFailed,
    CallbackNotImported,
    CallbackNotListed,
    TokenExpired,
)

log = logging.getLogger(__name__)

OAUTH, PASSWORD = "oauth_cb", "password_cb"
"""Keys of an extra that name a callback: of Kafka, as in Airflow's provider, and of Postgres."""

ARGUMENT = "sasl.oauthbearer.config"
"""The text that Kafka's callback is given, a key of librdkafka's."""

LISTED = "TIDEMARK_TOKEN_CALLBACKS"
"""The variable that lists callbacks for drivers and the command line."""

LISTS = (("tidemark", "token_callbacks"), ("apache_kafka", "callback_allowlist"))
"""Sections and options of Airflow's configuration: ours, and that of Kafka's provider."""

AGAIN_SECONDS = 10.0
"""When librdkafka asks again after a callback that failed."""

_FAR = 1e11
"""Seconds since 1970 up to the year 5138: what is more are milliseconds."""

OAuthToken = tuple[Any, ...]
"""Token, end of its life in seconds since 1970; then, if given, principal and SASL extensions."""


class Configuration(Protocol):
    """What is asked of Airflow's configuration."""

    def get(self, section: str, key: str, *, fallback: str) -> str | None:
        """An option's text."""


def listed_in_airflow(conf: Configuration) -> frozenset[str]:
    """The callbacks that whoever runs Airflow has listed, for Tidemark or for Kafka's provider."""
    texts = (conf.get(section, option, fallback="") for section, option in LISTS)
    return listed(",".join(filter(None, texts)))


def listed(text: str) -> frozenset[str]:
    """The dotted paths of a list with commas."""
    return frozenset(filter(None, map(str.strip, text.split(","))))


def refuse_unlisted(conn_id: str, extra: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Each callback that the extra names is one of those.

    Raises:
        CallbackNotListed: one is not.
    """
    for key in (OAUTH, PASSWORD):
        if key in extra and str(extra[key]) not in allowed:
            raise CallbackNotListed(conn_id=conn_id, key=key, path=str(extra[key]))


def with_oauth(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a Kafka client, whose `oauth_cb` is called for each of its tokens.

    The first token is made here: a client would wait in silence for one that does not come.

    Raises:
        InvalidSettings, Unreachable: the callback can't be called, or makes no token.
    """
    if OAUTH not in config:
        return dict(config)
    return {**config, OAUTH: _Tokens(config[OAUTH], config.get(ARGUMENT))}


def with_password(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a login to Postgres, with a fresh password if a callback makes it.

    Raises:
        InvalidSettings, Unreachable: the callback can't be called, or makes no password.
    """
    rest = {key: value for key, value in parameters.items() if key != PASSWORD}
    if PASSWORD not in parameters:
        return rest
    path = parameters[PASSWORD]
    found = _called(path, rest)
    if not isinstance(found, str) or not found:
        raise CallbackAnswerUnfit(path=path, found=_kind(found), wanted="a password")
    return rest | {"password": found}


class _Tokens:
    """What librdkafka calls, in a thread of its own, when a client needs a token.

    It must not raise there: confluent-kafka 2.16 leaves the exception to whatever runs next in that
    thread. If no new token comes, the old one stands until the client asks again.
    """

    def __init__(self, path: str, argument: str | None) -> None:
        self._path, self._argument = path, argument
        self._token, self._is_new = _oauth_token(path, argument), True

    def __call__(self, _: str | None) -> OAuthToken:
        if not self._is_new:
            self._renew()
        self._is_new = False
        return self._token

    def _renew(self) -> None:
        try:
            self._token = _oauth_token(self._path, self._argument)
        except TidemarkError as error:
            log.warning("%s; the last token stands, and a new one is asked for again", error)
            text, _, *others = self._token
            self._token = (text, time() + AGAIN_SECONDS, *others)


def _oauth_token(path: str, argument: str | None) -> OAuthToken:
    found = _called(path, argument)
    if not _is_token(found):
        wanted = "(token, seconds since 1970 at which it expires)"
        raise CallbackAnswerUnfit(path=path, found=_kind(found), wanted=wanted)
    if (left := found[1] - time()) <= 0:
        raise TokenExpired(path=path, seconds=-left)
    return found


def _is_token(found: object) -> TypeGuard[OAuthToken]:
    """What confluent-kafka takes; nor a time in milliseconds, after which no token is renewed."""
    kinds = (str, int | float, str, dict)
    if not isinstance(found, tuple) or not 2 <= len(found) <= len(kinds) or not found[0]:
        return False
    are_kinds = all(isinstance(*pair) for pair in zip(found, kinds, strict=False))
    extensions = (text for one in found[3:] for pair in one.items() for text in pair)
    return (
        are_kinds
        and math.isfinite(found[1])
        and found[1] < _FAR
        and all(isinstance(text, str) for text in extensions)
    )


def _kind(found: object) -> str:
    """Its types; of a number of milliseconds that it is one."""
    if not isinstance(found, tuple):
        return type(found).__name__
    names = [type(one).__name__ for one in found]
    if any(isinstance(one, int | float) and one >= _FAR for one in found[1:2]):
        names[1] = "milliseconds"
    return f"({', '.join(names)})"


def _called(path: str, given: object) -> object:
    """What it returns. Its own exception is not even the context of ours: that may be shown."""
    try:
        return _imported(path)(given)
    except TidemarkError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise CallbackFailed(path=path, cause=kind)


def _imported(path: str) -> Callable[[object], object]:
    module, _, name = path.rpartition(".")
    try:
        found: Callable[[object], object] = getattr(import_module(module), name)
        return found
    except Exception as error:
        missing = error.name if isinstance(error, ImportError | AttributeError) else None
        cause = " of ".join(filter(None, (type(error).__name__, missing)))
    raise CallbackNotImported(path=path, cause=cause)
