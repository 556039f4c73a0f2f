"""The schema registry: the schema of an id, kept by each process once it is known.

That the registry knows no such schema is an answer about the record. Everything else that is not
a schema is none, and never makes a dead letter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from tidemark.decode.framing import SchemaId
from tidemark.decode.outcome import Reason, Refusal
from tidemark.errors import InvalidSettings, Unreachable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

NOT_FOUND = 404
NO_SUCH_SCHEMA = 40403

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """A schema as it was registered, and those that it refers to, which come first."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: "tuple[Written, ...]" = ()


class Registry:
    """One registry; its client is opened by the first question."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)

    def schema(self, schema_id: SchemaId) -> Written:
        """The schema with this id.

        Raises:
            Refusal: the registry knows no such schema.
            Unreachable: it does not answer, or with anything but a schema.
            InvalidSettings: its connection can't be used.
        """
        if isinstance(schema_id, int):
            return self._with_references(self._asked(lambda: self._client.get_schema(schema_id)))
        return self._with_references(
            self._asked(lambda: self._client.get_schema_by_guid(schema_id))
        )

    def ping(self) -> str:
        """Where the registry is, once it has answered; raises as `schema`."""
        self._asked(lambda: self._client.get_schema_types())
        return str(self._config["url"])

    @cached_property
    def _client(self) -> "SchemaRegistryClient":
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise InvalidSettings(
                f"a schema registry needs packages that are missing ({error}): install"
                " tidemark[registry]"
            ) from error
        try:
            return SchemaRegistryClient(self._config)
        except (ValueError, TypeError, OSError) as error:  # OSError: a certificate's file
            raise InvalidSettings(f"the schema registry's connection: {error}") from error

    def _with_references(self, schema: "Schema") -> Written:
        if not isinstance(schema.schema_str, str):
            self._client.clear_caches()  # it keeps whatever was answered
            raise self._unreachable("answered without a schema")
        references = tuple(map(self._referred, schema.references or ()))
        return Written(schema.schema_type or "AVRO", schema.schema_str, references)

    def _referred(self, to: "SchemaReference") -> Written:
        found = self._asked(lambda: self._client.get_version(to.subject, to.version))
        return self._with_references(found.schema)

    def _asked(self, ask: Callable[[], T]) -> T:
        self._client  # noqa: B018 -- opened, or refused, before it is asked
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


def registry_of(config: Mapping[str, Any]) -> Registry:
    """The registry of this configuration; one for each process."""
    return _registry_of(tuple(sorted(config.items())))


@lru_cache(maxsize=8)
def _registry_of(items: tuple[tuple[str, Any], ...]) -> Registry:
    return Registry(dict(items))
