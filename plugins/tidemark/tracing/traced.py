"""Traces: spans of what a run does. Off, and no library imported, unless OTEL_* says where they go.

A run's members, and what surrounds them, say where their steps begin and end. The protocol knows
nothing of it. otel.py tells the library.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from tidemark import DISTRIBUTION
from tidemark.tracing.step import Attributes, EndedStep, Step

if TYPE_CHECKING:
    from tidemark.tracing.otel import Tracer

log = logging.getLogger(__name__)


PLACES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
DISABLED = "OTEL_SDK_DISABLED"


NOT_TRACED = Step()


@cache
def _tracer() -> "Tracer | None":
    """The tracer, if the environment wants one; a process decides once."""
    given = {name: os.environ.get(name, "").strip() for name in (*PLACES, EXPORTER, DISABLED)}
    if given[DISABLED].lower() == "true" or given[EXPORTER].lower() == "none":
        return None
    if not any(given[name] for name in (*PLACES, EXPORTER)):
        return None
    try:
        from tidemark.tracing.otel import tracer

        return tracer()
    except Exception as error:
        log.warning(
            "no traces: %s: %s. OTEL_* variables ask for them: install %s[otel]",
            type(error).__name__,
            error,
            DISTRIBUTION,
        )
        return None


@contextmanager
def traced_run(name: str, region: str, run_id: str | None) -> Iterator[Step]:
    """One process's part of a run; at its end what was traced is sent, for a bounded time."""
    tracer = _tracer()
    if tracer is None:
        yield NOT_TRACED
        return
    told = {"tidemark.region": region, **({"tidemark.run_id": run_id} if run_id else {})}
    with tracer.part(name, told, f"{region}/{run_id}" if run_id else None) as step:
        yield step


def traced(name: str) -> AbstractContextManager[Step]:
    """A step of the one that is under way in this thread."""
    tracer = _tracer()
    return tracer.step(name, {}) if tracer else nullcontext(NOT_TRACED)


@contextmanager
def begun(name: str, attributes: Attributes, first: EndedStep | None) -> Iterator[Step]:
    """A step that began with `first`, and that the block hands to who ends it; an error ends it."""
    tracer = _tracer()
    if tracer is None:
        yield NOT_TRACED
        return
    step = tracer.begin(name, attributes, first)
    with tracer.inside(step):
        if first:
            tracer.past(first)
        try:
            yield step
        except BaseException as error:
            step.end(error)
            raise


@contextmanager
def ending(step: Step) -> Iterator[None]:
    """With the block the step ends, too."""
    try:
        yield
    except BaseException as error:
        step.end(error)
        raise
    step.end()


@contextmanager
def remembered(name: str) -> Iterator[EndedStep | None]:
    """When the block began and ended, for `begun` or `record`."""
    past = EndedStep(name, time.time_ns()) if _tracer() else None
    yield past
    if past:
        past.end_ns = time.time_ns()


def record(past: EndedStep | None) -> None:
    """It belongs to the step that is under way in this thread."""
    tracer = _tracer()
    if tracer and past:
        tracer.past(past)


def for_child() -> dict[str, str]:
    """The variables that make a child's spans part of the trace that is under way here."""
    if _tracer() is None or "opentelemetry" not in sys.modules:
        return {}
    from tidemark.tracing.otel import to_environment

    return to_environment()
