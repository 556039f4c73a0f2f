"""A schema registry for tests: a small HTTP server that follows Confluent's documented API.

It is no registry: it checks no compatibility. tests/contract/test_registry.py asks the same of it
and of a real one.
"""

import json
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID, uuid5

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from tests.support.http_server import served

from tidemark.settings.connections import Connection

NAMES = UUID("00000000-0000-0000-0000-0000000000aa")
TYPE = "application/vnd.schemaregistry.v1+json"


class KnownRegistry:
    """A registry by its address."""

    def __init__(self, url: str = "") -> None:
        self.url = url

    def connection(self, **changes: Any) -> Connection:
        """What Airflow would resolve."""
        return Connection("tidemark_registry", "http", **{"host": self.url, **changes})

    def client(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.url, "timeout": 10})

    def register(
        self, subject: str, schema: Any, *references: SchemaReference, kind: str = "AVRO"
    ) -> int:
        """The id that the client was told."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        made = Schema(text, kind, list(references))
        number: int = self.client().register_schema(subject, made)
        return number


class TestRegistry(KnownRegistry):
    """What is registered, what was asked, and what a test wants answered instead."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.answers_instead: tuple[int, bytes] | None = None
        self.answers_of: dict[str, tuple[int, bytes]] = {}
        """What is answered instead to paths that begin so."""
        self.has_guids = True

    def guid(self, schema_id: int) -> UUID:
        return uuid5(NAMES, json.dumps(self.schemas[schema_id], sort_keys=True))

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and document."""
        path, _, query = path.lstrip("/").partition("?")
        status, document = self._answer(method, path, body)
        if "schemaType" in document and "format=serialized" not in query:
            document = document | {"schema": as_text(document)}
        return status, document

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "GET" and path == "schemas/types":
            return 200, ["JSON", "PROTOBUF", "AVRO"]
        found = re.fullmatch(r"schemas/ids/(\d+)", path)
        if found and int(found[1]) < 1 << 31:  # Confluent's own has no page for others
            return self._schema(int(found[1]))
        found = re.fullmatch(r"schemas/guids/([\w-]+)", path)
        if found and self.has_guids:
            known = [number for number in self.schemas if str(self.guid(number)) == found[1]]
            return self._schema(known[0] if known else 0)
        if found := re.fullmatch(r"subjects/([^/]+)/versions(?:/(\w+))?", path):
            return self._registered(found[1], body) if body else self._version(found[1], found[2])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, number: int) -> tuple[int, Any]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self.schemas[number] | {"guid": str(self.guid(number))}

    def _registered(self, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        schema = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        known = [number for number, other in self.schemas.items() if other == schema]
        number = known[0] if known else len(self.schemas) + 1
        self.schemas[number] = schema
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return 200, {"id": number, "guid": str(self.guid(number))}

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        numbers = self.subjects.get(subject, [])
        at = len(numbers) if version == "latest" else int(version)
        if not 0 < at <= len(numbers):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = numbers[at - 1]
        return 200, self.schemas[number] | {"subject": subject, "version": at, "id": number}


def as_text(schema: dict[str, Any]) -> str:
    """What a registry shows of a schema; clients register those of Protobuf as descriptors."""
    text = str(schema["schema"])
    if schema["schemaType"] != "PROTOBUF" or " " in text:
        return text
    return f'syntax = "proto3"; // {len(text)} letters'


def basic(login: str, password: str) -> str:
    """The header that proves a login."""
    return "Basic " + b64encode(f"{login}:{password}".encode()).decode()


@contextmanager
def registry(tls: ssl.SSLContext | None = None) -> Iterator[TestRegistry]:
    """A registry that listens on a port of its own."""
    told = TestRegistry()
    with served(_handler(told), tls) as told.url:
        yield told


def _handler(registry: TestRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET", None)

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            self._reply("POST", json.loads(self.rfile.read(size)))

        def _reply(self, method: str, body: Any) -> None:
            registry.asked.append(f"{method} {self.path}")
            of_path = [
                one for path, one in registry.answers_of.items() if self.path.startswith(path)
            ]
            if registry.answers_instead:
                status, data = registry.answers_instead
            elif of_path:
                [(status, data)] = of_path
            elif registry.authorization not in (None, self.headers["Authorization"]):
                status, data = 401, b'{"error_code": 401, "message": "HTTP 401 Unauthorized"}'
            else:
                status, document = registry.answer(method, self.path, body)
                data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def framed(schema_id: int | UUID, datum: bytes, path: bytes = b"") -> bytes:
    """A value as registry clients write it; Protobuf has the message's place too."""
    datum = path + datum
    if isinstance(schema_id, UUID):
        return b"\1" + schema_id.bytes + datum
    return b"\0" + schema_id.to_bytes(4) + datum
