"""Spans told to OpenTelemetry's SDK. Imported only where traces are wanted."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from threading import Thread
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tidemark import __version__
from tidemark.errors import TidemarkError
from tidemark.tracing.step import Attributes, EndedStep, Step

FLUSH_SECONDS = 5.0
"""How long the end of a run's part waits for the collector, at most."""

EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points by which OpenTelemetry's exporters are known."""

SAFE_TEXTS = frozenset({"region", "run_id", "topic", "group", "table", "constraint", "partition"})
"""Fields of errors that are names of a pipeline's own things, never of what a record says."""

_trace_of_run: ContextVar[int | None] = ContextVar("trace_of_run", default=None)


class Tracer:
    """Makes spans; of one process."""

    def __init__(self, provider: TracerProvider, *, is_ours: bool) -> None:
        self._provider = provider
        self._is_ours = is_ours
        self._spans = provider.get_tracer("tidemark", __version__)

    @contextmanager
    def part(self, name: str, attributes: Attributes, run: str | None) -> Iterator[Step]:
        """A span below the one that the environment or Airflow has begun; else of the run's trace.

        All processes of a run have one trace: its id is made of the run's name.
        """
        current = trace.get_current_span()
        # Where Airflow does not trace, its tasks bear ids all the same, marked as left out.
        is_outermost = self._is_ours and not current.is_recording()
        named = _trace_of_run.set(_trace_id(run) if run else None)
        try:
            with self.step(name, attributes, _parent() if is_outermost else None) as step:
                yield step
        finally:
            _trace_of_run.reset(named)
            if self._is_ours and is_outermost:
                self._flush()

    @contextmanager
    def step(
        self, name: str, attributes: Attributes, parent: Context | None = None
    ) -> Iterator[Step]:
        """A span for as long as the block takes."""
        step = _Spanned(self._spans.start_span(name, parent, attributes=dict(attributes)))
        with self.inside(step):
            try:
                yield step
            except BaseException as error:
                step.end(error)
                raise
            step.end()

    def begin(self, name: str, attributes: Attributes, first: EndedStep | None) -> "_Spanned":
        """A span that `end` ends; it began with `first`."""
        since = first.begin_ns if first else None
        span = self._spans.start_span(name, attributes=dict(attributes), start_time=since)
        return _Spanned(span)

    def inside(self, step: "_Spanned") -> AbstractContextManager[Any]:
        """In the block, new spans are this one's."""
        return trace.use_span(step.span, record_exception=False, set_status_on_exception=False)

    def past(self, past: EndedStep) -> None:
        """A span that is over."""
        self._spans.start_span(past.name, start_time=past.begin_ns).end(past.end_ns)

    def _flush(self) -> None:
        # The SDK's own time-out is not heeded, and a task's process may end without `atexit`.
        sending = Thread(target=self._provider.force_flush, daemon=True, name="tidemark traces")
        sending.start()
        sending.join(FLUSH_SECONDS)


class _Spanned(Step):
    def __init__(self, span: Span) -> None:
        self.span = span

    def tell(self, attributes: Attributes) -> None:
        self.span.set_attributes(dict(attributes))

    def end(self, error: BaseException | None = None) -> None:
        if not self.span.is_recording():
            return
        if error is not None:
            told = _error_attributes(error)
            self.span.set_attributes(told)
            self.span.set_status(Status(StatusCode.ERROR, str(told["error.type"])))
        self.span.end()


def _error_attributes(error: BaseException) -> Attributes:
    """Code, case and fields of an error, and never what a record or a row said.

    That can stand in its text, and in fields that are texts or lists of them: a foreign library's
    words, a reason. So a trace has numbers, which are offsets and counts, and the texts of
    SAFE_TEXTS alone.
    """
    if not isinstance(error, TidemarkError):
        return {"error.type": type(error).__name__}
    fields = {
        f"tidemark.error.{name}": value
        for name, value in error.fields().items()
        if isinstance(value, int | float) or (isinstance(value, str) and name in SAFE_TEXTS)
    }
    return {"error.type": error.code, "tidemark.error.case": error.case, **fields}


class _TraceOfRun(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _trace_of_run.get() or super().generate_trace_id()


def _trace_id(run: str) -> int:
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:16], "big")


def tracer() -> Tracer:
    """By Airflow's own provider where it traces, else by one that the environment configures."""
    airflows = trace.get_tracer_provider()
    if isinstance(airflows, TracerProvider):
        return Tracer(airflows, is_ours=False)
    named = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "tidemark")})
    provider = TracerProvider(resource=named, id_generator=_TraceOfRun(), shutdown_on_exit=False)
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())))
    return Tracer(provider, is_ours=True)


def _exporter(name: str) -> Any:
    """The exporter of that name, as OpenTelemetry's own start-up finds it."""
    if name == "otlp":
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
        )
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = list(entry_points(group=EXPORTERS, name=name))
    if not found:
        raise LookupError(f"no exporter {name} is installed")
    return found[0].load()()


def _parent() -> Context:
    """What TRACEPARENT names; else the run's own trace begins."""
    carrier = {
        name: os.environ[name.upper()]
        for name in ("traceparent", "tracestate")
        if name.upper() in os.environ
    }
    return TraceContextTextMapPropagator().extract(carrier, Context())


def to_environment() -> dict[str, str]:
    """The span that is under way, for a child; nothing where nobody records it."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        return {}  # Airflow has ids of spans that nobody sees, marked as left out
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
