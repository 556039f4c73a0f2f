"""The schema registry: the schema of an id, kept by each process once it is known.

That the registry knows no such schema is an answer about the record. Everything else that is not
a schema is none, and never makes a dead letter.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from tidemark.decode.framing import SchemaId
from tidemark.decode.outcome import Reason, Refusal
from tidemark.errors import InvalidSettings, Unreachable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

NOT_FOUND = 404
NO_SUCH_SCHEMA = 40403

SERIALIZED = "serialized"
"""The form of a Protobuf schema that needs no parser: its descriptor, in base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

T = TypeVar("T")


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
    """What a schema refers to, each once and first, then the schema itself."""
    found: dict[Written, None] = {}
    for one in written.references:
        found |= dict.fromkeys(flattened(one))
    return [*found, written]


class Registry:
    """One registry; its client is opened by the first question."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._clients: dict[str | None, SchemaRegistryClient] = {}

    def schema(self, schema_id: SchemaId) -> Written:
        """The schema with this id.

        Raises:
            Refusal: the registry knows no such schema.
            Unreachable: it does not answer, or with anything but a schema.
            InvalidSettings: its connection can't be used.
        """
        return self._with_references(self._found(schema_id))

    def serialized(self, schema_id: SchemaId) -> Written:
        """A schema of Protobuf and those it imports, each as a descriptor in base64.

        Raises:
            Refusal, Unreachable, InvalidSettings: as `schema`; or it is of another kind.
        """
        self._written(self._found(schema_id)).refuse_other_than("PROTOBUF")
        return self._with_references(self._found(schema_id, SERIALIZED), SERIALIZED)

    def ping(self) -> str:
        """Where the registry is, once it has answered; raises as `schema`."""
        self._asked(self._client().get_schema_types)
        return str(self._config["url"])

    def _client(self, form: str | None = None) -> "SchemaRegistryClient":
        """The client for schemas in this form: it keeps them without a look at their form."""
        if form not in self._clients:
            self._clients[form] = _opened(self._config)
        return self._clients[form]

    def _found(self, schema_id: SchemaId, form: str | None = None) -> "Schema":
        client = self._client(form)
        if isinstance(schema_id, int):
            return self._asked(lambda: client.get_schema(schema_id, fmt=form))
        return self._asked(lambda: client.get_schema_by_guid(schema_id, fmt=form))

    def _with_references(
        self, schema: "Schema", form: str | None = None, name: str = ""
    ) -> Written:
        written = self._written(schema, form)
        references = tuple(self._referred(one, form) for one in schema.references or ())
        return replace(written, references=references, name=name)

    def _written(self, schema: "Schema", form: str | None = None) -> Written:
        text = schema.schema_str
        hint = " (a text instead: see decode.descriptor)" if form and text else ""
        if not isinstance(text, str) or (form and not _BASE64.fullmatch(text)):
            self._client(form).clear_caches()  # it keeps whatever was answered
            raise self._unreachable(f"answered without a{f' {form}' if form else ''} schema{hint}")
        return Written(schema.schema_type or "AVRO", text)

    def _referred(self, to: "SchemaReference", form: str | None) -> Written:
        client = self._client(form)
        found = self._asked(lambda: client.get_version(to.subject, to.version, fmt=form))
        return self._with_references(found.schema, form, to.name or "")

    def _asked(self, ask: Callable[[], T]) -> T:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            if (error.http_status_code, error.error_code) == (NOT_FOUND, NO_SUCH_SCHEMA):
                raise Refusal(Reason.UNKNOWN_SCHEMA, "the registry knows no such schema") from error
            raise self._unreachable(f"answered {error}") from error
        except Exception as error:
            raise self._unreachable(f"did not answer: {type(error).__name__}: {error}") from error

    def _unreachable(self, fact: str) -> Unreachable:
        return Unreachable(
            f"the schema registry {self._config['url']} {fact}. Look at the registry and at its"
            " connection; no record becomes a dead letter for this"
        )


def _opened(config: Mapping[str, Any]) -> "SchemaRegistryClient":
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise InvalidSettings(
            f"a schema registry needs packages that are missing ({error}): install"
            " tidemark[registry]"
        ) from error
    try:
        return SchemaRegistryClient(dict(config))
    except (ValueError, TypeError, OSError) as error:  # OSError: a certificate's file
        raise InvalidSettings(f"the schema registry's connection: {error}") from error


def registry_of(config: Mapping[str, Any]) -> Registry:
    """The registry of this configuration; one for each process."""
    return _registry_of(tuple(sorted(config.items())))


@lru_cache(maxsize=8)
def _registry_of(items: tuple[tuple[str, Any], ...]) -> Registry:
    return Registry(dict(items))
