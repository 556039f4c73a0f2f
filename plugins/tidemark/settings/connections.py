"""Connections in the Airflow providers' own shapes.

A driver and the command line find them in the environment as AIRFLOW_CONN_<ID>, JSON or URI.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tidemark.settings.errors import ConnectionNotKnown, ConnectionUnreadable
from tidemark.tokens.callbacks import (
    LISTED,
    Configuration,
    listed,
    listed_in_airflow,
    refuse_unlisted,
)

PREFIX = "AIRFLOW_CONN_"


class AirflowConnection(Protocol):
    """What is read of an Airflow connection object."""

    conn_id: str
    conn_type: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None
    schema: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extra field as a dict."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection; its secrets never appear in its repr."""

    conn_id: str
    conn_type: str
    host: str | None = None
    port: int | None = None
    login: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, conn_id: str, environ: Mapping[str, str] = os.environ) -> Self:
        """Read AIRFLOW_CONN_<ID>, JSON or URI.

        The token callbacks that it may name stand in this process's TIDEMARK_TOKEN_CALLBACKS.

        Raises:
            InvalidSettings: the variable is missing or can't be read, or names another callback.
        """
        name = PREFIX + conn_id.upper()
        text = environ.get(name, "").strip()
        if not text:
            raise ConnectionNotKnown(conn_id=conn_id, variable=name)
        try:
            is_json = text[0] == "{"
            found = cls._from_json(conn_id, text) if is_json else cls._from_uri(conn_id, text)
        except (ValueError, TypeError) as error:
            # The text itself holds secrets: name the variable, not its content.
            raise ConnectionUnreadable(conn_id=conn_id, variable=name) from error
        refuse_unlisted(conn_id, found.extra, listed(os.environ.get(LISTED, "")))
        return found

    @classmethod
    def from_airflow(cls, connection: AirflowConnection, conf: Configuration) -> Self:
        """Copy an Airflow connection, from whichever secrets backend it came.

        Raises:
            InvalidSettings: it names a token callback that Airflow's configuration does not list.
        """
        c = connection
        refuse_unlisted(c.conn_id, c.extra_dejson, listed_in_airflow(conf))
        return cls(
            conn_id=c.conn_id,
            conn_type=c.conn_type,
            host=c.host,
            port=c.port,
            login=c.login,
            password=c.password,
            schema=c.schema,
            extra=c.extra_dejson,
        )

    @classmethod
    def _from_json(cls, conn_id: str, text: str) -> Self:
        found = json.loads(text)
        extra = found.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        port, ports = _ports(found.get("port"))
        return cls(
            conn_id=conn_id,
            conn_type=found.get("conn_type", ""),
            host=found.get("host"),
            port=port,
            login=found.get("login"),
            password=found.get("password"),
            schema=found.get("schema"),
            extra=ports | extra,
        )

    @classmethod
    def _from_uri(cls, conn_id: str, text: str) -> Self:
        uri = urlsplit(text)
        if not uri.scheme:
            raise ValueError("no scheme")
        query = dict(parse_qsl(uri.query, keep_blank_values=True))
        extra = json.loads(query["__extra__"]) if "__extra__" in query else query
        host, port, ports = _servers(uri)
        return cls(
            conn_id=conn_id,
            conn_type=uri.scheme.replace("postgresql", "postgres").replace("-", "_"),
            host=host,
            port=port,
            login=unquote(uri.username) if uri.username else None,
            password=unquote(uri.password) if uri.password else None,
            schema=unquote(uri.path.lstrip("/")) or None,
            extra=ports | extra,
        )

    @property
    def place(self) -> str:
        """Which connection it is and where it leads, for errors: no secret is in it."""
        brokers = self.extra.get("bootstrap.servers")
        address = brokers or f"{self.host}:{self.port or 5432}, database {self.schema}"
        return f"connection {self.conn_id!r}, {address}"

    def to_env(self) -> tuple[str, str]:
        """The environment variable and its JSON, for a child process alone."""
        fields = {
            "conn_type": self.conn_type,
            "host": self.host,
            "port": self.port,
            "login": self.login,
            "password": self.password,
            "schema": self.schema,
            "extra": dict(self.extra),
        }
        return PREFIX + self.conn_id.upper(), json.dumps({k: v for k, v in fields.items() if v})


def _ports(port: int | str | None) -> tuple[int | None, dict[str, Any]]:
    """A port; or several, which Airflow's field does not hold, as an extra."""
    if port and "," in str(port):
        return None, {"port": ",".join(str(int(one)) for one in str(port).split(","))}
    return int(port) if port else None, {}


def _servers(uri: SplitResult) -> tuple[str | None, int | None, dict[str, Any]]:
    """Host and port of a URI; of several servers, host:port,host:port, their lists."""
    servers = uri.netloc.rpartition("@")[2]
    if "," not in servers:
        return unquote(uri.hostname) if uri.hostname else None, uri.port, {}
    pairs = [server.partition(":") for server in servers.split(",")]
    ports = ",".join(port or "5432" for _, _, port in pairs)
    return ",".join(unquote(host) for host, _, _ in pairs), *_ports(ports)
