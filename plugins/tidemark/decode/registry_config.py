"""The schema registry client's configuration: what its connection says, over a few defaults."""

from typing import Any
from urllib.parse import urlsplit

from tidemark.decode.errors import (
    RegistryExtraNested,
    RegistryExtraUnused,
    RegistryLoginInHost,
    RegistryWithoutAddress,
)
from tidemark.settings.connections import Connection

DEFAULTS: dict[str, Any] = {"timeout": 10, "max.retries": 3}
"""The client itself would wait for ever."""

TAKEN = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "proxy",
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
)
"""The keys of a connection's extra, named as the client names them."""


def registry_config(connection: Connection) -> dict[str, Any]:
    """The client's configuration; its `url` bears no secret.

    Raises:
        InvalidSettings: the connection has no address, or what the client would not understand.
    """
    unknown = sorted(set(connection.extra) - set(TAKEN))
    if unknown:
        raise RegistryExtraUnused(conn_id=connection.conn_id, keys=tuple(unknown))
    if not all(map(_is_plain, connection.extra.values())):
        raise RegistryExtraNested(conn_id=connection.conn_id)
    found = DEFAULTS | dict(connection.extra) | {"url": _url(connection)}
    if connection.login:
        found["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    if "bearer.auth.token" in found:
        found.setdefault("bearer.auth.credentials.source", "STATIC_TOKEN")
        found.setdefault("bearer.auth.logical.cluster", "-")  # the client wants one
    return found


def _is_plain(value: object) -> bool:
    """A text or a number; `ssl.ca.location: false` would switch verification off."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _url(connection: Connection) -> str:
    """Host, port and scheme as Airflow's HTTP connections have them."""
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise RegistryWithoutAddress(conn_id=connection.conn_id)
    if parts.username or parts.password:
        raise RegistryLoginInHost(conn_id=connection.conn_id)
    return f"{url.rstrip('/')}:{connection.port}" if connection.port else url.rstrip("/")
