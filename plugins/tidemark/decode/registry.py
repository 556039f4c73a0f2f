"""The schema registry: the schema of an id, kept by each process once it is known.

An answer about one id is about the records that name it: they become dead letters. So is an error
of the asker's (4xx) about this id, while it answers well about another one; and whatever else it
answers twice, while it gives anew what it gave before. Silence, a refused login and what else it
answers are about the registry, and make no dead letter.
The client's configuration is what its connection says, over a few defaults.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from tidemark.decode.errors import (
    RegistryClientRefused,
    RegistryExtraNested,
    RegistryFailed,
    RegistryGaveNoSchema,
    RegistryLoginInHost,
    RegistrySilent,
    RowSchemaRejected,
    SubjectNotKnown,
)
from tidemark.decode.framing import SchemaId
from tidemark.decode.port import Reason, Refusal
from tidemark.errors import packages_of
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, ConnectionKeysRefused

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import (
        RegisteredSchema,
        Schema,
        SchemaReference,
        SchemaRegistryClient,
    )


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
        raise ConnectionKeysRefused(
            conn_id=connection.conn_id, keys=tuple(unknown), taken=", ".join(TAKEN)
        )
    nested = sorted(key for key, value in connection.extra.items() if not _is_plain(value))
    if nested:
        raise RegistryExtraNested(conn_id=connection.conn_id, keys=tuple(nested))
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
        raise ConnectionIncomplete(
            conn_id=connection.conn_id,
            missing="address",
            remedy="set its host, such as https://registry:8081",
        )
    if parts.username or parts.password:
        raise RegistryLoginInHost(conn_id=connection.conn_id)
    return f"{url.rstrip('/')}:{connection.port}" if connection.port else url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Written:
    """A schema as it was registered, and those that it refers to, which come first."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: "tuple[Written, ...]" = ()
    name: str = ""
    """By which another schema refers to it: of Protobuf the path of an import."""

    def refuse_other_than(self, kind: str) -> None:
        """Refuse it, unless it is of this kind.

        Raises:
            Refusal: it is of another.
        """
        if self.kind != kind:
            raise Refusal(Reason.OTHER_SCHEMA, f"the schema is of the kind {self.kind}")


def flattened(written: Written) -> list[Written]:
    """What a schema refers to, each once and first, then the schema itself.

    Each is looked at once, however many paths lead to it.
    """
    found: dict[tuple[str, str, str], Written] = {}
    seen: set[int] = set()
    todo = [(written, False)]
    while todo:
        one, is_behind = todo.pop()
        if is_behind:
            found.setdefault((one.kind, one.text, one.name), one)
        elif id(one) not in seen:
            seen.add(id(one))
            todo.append((one, True))
            todo += [(other, False) for other in reversed(one.references)]
    return list(found.values())


NOT_FOUND = 404
NO_SUBJECT = (40401, 40402)
MAY_NOT_WRITE = (401, 403)
NOT_TAKEN = (*MAY_NOT_WRITE, 409, 422)
NO_SUCH_SCHEMA = 40403
FIRST_NO_ID = 1 << 31
"""Readers take the four bytes in front of a value for a signed number."""

OF_THE_REGISTRY = (401, 403, 407, 408, 429)
"""Statuses that say nothing about an id: the login, or too much was asked."""
OF_THE_ASKER = range(400, 500)
NOT_AS_AGREED = (ValueError, KeyError, TypeError, AttributeError)
"""What the client raises over an answer that no registry gives."""

MOST_REFERENCES = 64
"""Schemas that refer to one another in a row."""

AGAIN = "again"
"""In place of a form: of the client for what is asked anew, from no cache."""

PROTOBUF = "PROTOBUF"
SERIALIZED = "serialized"
"""The form of a Protobuf schema that needs no parser: its descriptor, in base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

T = TypeVar("T")
Ask = Callable[["SchemaRegistryClient"], "Schema"]
Page = tuple[str, str | None]
"""What is asked for, an id or a version, and in which form: each may fail alone."""


class Registry:
    """One registry; its client is opened by the first question."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._url = str(config["url"])
        self._clients: dict[str | None, SchemaRegistryClient] = {}
        self._given_well: dict[Page, Ask] = {}

    def schema(self, schema_id: SchemaId) -> Written:
        """The schema with this id.

        Raises:
            Refusal: the registry knows no such schema.
            Unreachable: it does not answer, or with anything but a schema.
            InvalidSettings: its connection can't be used.
        """
        return _Whole(self).of(self._schema_of(schema_id))

    def serialized(self, schema_id: SchemaId) -> Written:
        """A schema of Protobuf and those it imports, each as a descriptor in base64.

        Raises:
            Refusal, Unreachable, InvalidSettings: as `schema`; or it is of another kind.
        """
        self.written(self._schema_of(schema_id)).refuse_other_than(PROTOBUF)
        return _Whole(self, SERIALIZED).of(self._schema_of(schema_id, SERIALIZED))

    def latest(self, subject: str, form: str | None = None) -> tuple[int, Written]:
        """The newest version of a subject, and its schema; one of Protobuf in this form.

        Raises:
            InvalidSettings: there is no such subject; or the connection can't be used.
            Unreachable: as `schema`.
        """
        found = self._latest(subject)
        if form and found.schema.schema_type == PROTOBUF:
            found = self._latest(subject, form)
            return found.version, _Whole(self, form).of(found.schema)
        return found.version, _Whole(self).of(found.schema)

    def register(self, subject: str, text: str) -> int:
        """The id of a schema of Avro under a subject; it is registered if it is new there.

        Raises:
            Refused: the registry does not take it, for a reason in its own words.
            Unreachable, InvalidSettings: as `schema`.
        """
        found = self._registered(subject, text)
        if not 0 <= found < FIRST_NO_ID:
            raise RegistryFailed(url=self._url, cause=f"with the id {found}", status=200)
        return found

    def _registered(self, subject: str, text: str) -> int:
        from confluent_kafka.schema_registry import Schema, SchemaRegistryError

        client, schema = self._client(), Schema(text, "AVRO")
        try:
            return int(client.register_schema(subject, schema))
        except SchemaRegistryError as error:
            if error.http_status_code in MAY_NOT_WRITE:  # somebody else may have registered it
                with suppress(Exception):
                    return int(client.lookup_schema(subject, schema).schema_id)
            if error.http_status_code in NOT_TAKEN:
                raise RowSchemaRejected(
                    url=self._url, subject=subject, schema=text, cause=str(error)
                ) from error
            raise RegistryFailed(
                url=self._url, cause=str(error), status=error.http_status_code
            ) from error
        except Exception as error:
            raise self._silent(error) from error

    def ping(self) -> str:
        """Where the registry is, once it has answered; raises as `schema`."""
        try:
            self._asked(self._client().get_schema_types)
        except RegistryFailed:  # an older one does not tell its types
            if not self._knows_ids():
                raise
        return self._url

    def _client(self, form: str | None = None) -> "SchemaRegistryClient":
        """The client for schemas in this form: it keeps them without a look at their form."""
        if form not in self._clients:
            self._clients[form] = _opened(self._config)
        return self._clients[form]

    def _latest(self, subject: str, form: str | None = None) -> "RegisteredSchema":
        client = self._client(form)
        client.clear_latest_caches()  # it would keep the first answer
        return self._asked(lambda: client.get_latest_version(subject, fmt=form), subject)

    def _schema_of(self, schema_id: SchemaId, form: str | None = None) -> "Schema":
        page = ("id", form)
        if isinstance(schema_id, str):
            return self._given(page, lambda client: client.get_schema_by_guid(schema_id, fmt=form))
        if schema_id >= FIRST_NO_ID:
            raise _unknown()
        return self._given(page, lambda client: client.get_schema(schema_id, fmt=form))

    def _given(self, page: Page, ask: Ask, what: str = "such schema") -> "Schema":
        """The answer about one schema, which the bytes of any record may name.

        Raises:
            Refusal: it is none, again and again, and the registry answers well about another id.
            Unreachable, InvalidSettings: as `schema`.
        """
        for _ in range(2):  # a registry that was away for a moment may be back
            try:
                found = self._asked(lambda: self._with_text(ask(self._client(page[1]))))
            except (RegistryFailed, RegistryGaveNoSchema) as error:
                status = error.status
                if not self._answers_others(page, status):
                    raise
                if status == NOT_FOUND:  # as of GUIDs, for which older registries have no page
                    break
            else:
                self._given_well[page] = ask
                return found
        raise _unknown(what, f": it answers {status}")

    def _answers_others(self, page: Page, status: int) -> bool:
        """Whether it answers well about another schema, so that this status is about one alone."""
        if status in OF_THE_REGISTRY:
            return False
        if status in OF_THE_ASKER:
            return self._knows_ids()
        return self._gives_again(page) and self._knows_ids()  # not from a cache in front of it

    def _gives_again(self, page: Page) -> bool:
        """Whether what it gave before from this page is given anew. False if it gave nothing.

        A storage that is partly broken may know that an id is none, and lack those that are there.
        """
        ask = self._given_well.get(page)
        if ask is None:
            return False
        client = self._client(AGAIN)
        client.clear_caches()
        try:
            self._asked(lambda: self._with_text(ask(client)))
        except (Refusal, RegistryFailed, RegistryGaveNoSchema, RegistrySilent):
            return False
        return True

    def _with_text(self, schema: "Schema") -> "Schema":
        if not isinstance(schema.schema_str, str):
            self._forget()
            raise RegistryGaveNoSchema(url=self._url, form=None, is_text_instead=False)
        return schema

    def _knows_ids(self) -> bool:
        """Whether it answers about another id as registries do: that it is none, or a schema."""
        try:
            self._asked(lambda: self._with_text(self._client().get_schema(FIRST_NO_ID - 1)))
        except Refusal:
            return True
        except (RegistryFailed, RegistryGaveNoSchema, RegistrySilent):
            return False
        return True

    def _forget(self) -> None:
        """The clients keep whatever was answered."""
        for client in self._clients.values():
            client.clear_caches()

    def written(self, schema: "Schema", form: str | None = None) -> Written:
        """The schema alone.

        Raises:
            Unreachable: it is none, or not in this form.
        """
        text = schema.schema_str
        if not isinstance(text, str) or (form and not _BASE64.fullmatch(text)):
            self._forget()
            raise RegistryGaveNoSchema(
                url=self._url, form=form, is_text_instead=bool(form and text)
            )
        return Written(schema.schema_type or "AVRO", text)

    def version(self, subject: str, version: int, form: str | None) -> "Schema":
        """A version of a subject, to which a schema refers; raises as `schema`."""
        return self._given(
            ("version", form),
            lambda client: client.get_version(subject, version, fmt=form).schema,
            f"version {version} of {subject}, to which its schema refers",
        )

    def _asked(self, ask: Callable[[], T], subject: str = "") -> T:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            if subject and error.http_status_code == NOT_FOUND and error.error_code in NO_SUBJECT:
                raise SubjectNotKnown(url=self._url, subject=subject) from error
            if (error.http_status_code, error.error_code) == (NOT_FOUND, NO_SUCH_SCHEMA):
                raise _unknown() from error
            raise RegistryFailed(
                url=self._url, cause=str(error), status=error.http_status_code
            ) from error
        except (RegistryGaveNoSchema, Refusal):
            raise
        except NOT_AS_AGREED as error:
            raise RegistryGaveNoSchema(url=self._url, form=None, is_text_instead=False) from error
        except Exception as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> RegistrySilent:
        return RegistrySilent(url=self._url, cause=f"{type(error).__name__}: {error}")


class _Whole:
    """A schema with all that it refers to, each asked for once."""

    def __init__(self, registry: Registry, form: str | None = None) -> None:
        self._registry = registry
        self._form = form
        self._written: dict[tuple[str, int, str], Written] = {}

    def of(self, schema: "Schema", name: str = "", depth: int = 0) -> Written:
        """The schema, by this name where another refers to it."""
        if depth > MOST_REFERENCES:
            raise Refusal(
                Reason.OTHER_SCHEMA, f"its references are nested deeper than {MOST_REFERENCES}"
            )
        references = [self._referred(one, depth + 1) for one in schema.references or ()]
        written = self._registry.written(schema, self._form)
        return replace(written, references=tuple(references), name=name)

    def _referred(self, to: "SchemaReference", depth: int) -> Written:
        try:
            subject, version, name = str(to.subject), int(to.version or 0), to.name or ""
        except NOT_AS_AGREED:
            raise Refusal(Reason.OTHER_SCHEMA, "one of its references is none") from None
        key = (subject, version, name)
        if key not in self._written:
            schema = self._registry.version(subject, version, self._form)
            self._written[key] = self.of(schema, name, depth)
        return self._written[key]


def _unknown(what: str = "such schema", how: str = "") -> Refusal:
    return Refusal(Reason.UNKNOWN_SCHEMA, f"the registry knows no {what}{how}")


def _opened(config: Mapping[str, Any]) -> "SchemaRegistryClient":
    with packages_of("registry", "a schema registry"):
        from confluent_kafka.schema_registry import SchemaRegistryClient
    try:
        return SchemaRegistryClient(dict(config))
    except (ValueError, TypeError, OSError) as error:  # OSError: a certificate's file
        raise RegistryClientRefused(cause=str(error)) from error


def registry_of(config: Mapping[str, Any]) -> Registry:
    """The registry of this configuration; one for each process."""
    return _registry_of(tuple(sorted(config.items())))


@lru_cache(maxsize=8)
def _registry_of(items: tuple[tuple[str, Any], ...]) -> Registry:
    return Registry(dict(items))
