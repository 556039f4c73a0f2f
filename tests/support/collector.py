"""A collector of traces: a real OTLP/HTTP receiver that keeps what it was sent."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from threading import Event
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.http_server import receiver, served


@dataclass(frozen=True)
class Seen:
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    begin: int
    end: int
    error: str
    told: dict[str, Any]
    service: str


@dataclass
class Collector:
    """What arrived, and at what address."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    answer: int = 200
    is_hanging: bool = False
    answered: int = 0
    released: Event = field(default_factory=Event)

    def spans(self) -> list[Seen]:
        """All spans, in the order in which they began."""
        found = [one for body in self.bodies for one in _spans(body)]
        return sorted(found, key=lambda one: (one.begin, -one.end))

    def named(self, name: str) -> list[Seen]:
        return [one for one in self.spans() if one.name == name]

    def below(self, parent: Seen) -> list[str]:
        """The names of its children."""
        return [one.name for one in self.spans() if one.parent == parent.id]


def _spans(body: bytes) -> Iterator[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        service = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Seen(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.message if span.status.code == 2 else "",
                    {one.key: _value(one.value) for one in span.attributes},
                    service["service.name"],
                )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def collecting(answer: int = 200, *, is_hanging: bool = False) -> Iterator[Collector]:
    """A collector at work; one that hangs takes what comes and never answers."""
    collector = Collector(answer=answer, is_hanging=is_hanging)

    def take(body: bytes, headers: Message) -> int:
        packed = headers.get("Content-Encoding") == "gzip"
        collector.bodies.append(gzip.decompress(body) if packed else body)
        if collector.is_hanging:
            collector.released.wait(120)
        collector.answered += 1
        return collector.answer

    with served(receiver(take)) as collector.url:
        try:
            yield collector
        finally:
            collector.released.set()
