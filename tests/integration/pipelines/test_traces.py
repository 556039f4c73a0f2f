"""Traces of real runs, as a collector that speaks OTLP receives them."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.collector import Collector, collecting
from tests.support.produce import produce
from tests.support.world import World, fail

from tidemark.errors import JobFailed, TargetRefused
from tidemark.model.plan import Bounds
from tidemark.tracing import otel, traced

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collecting() as collector:
        yield from traced_to(collector, monkeypatch)


def traced_to(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    traced._tracer.cache_clear()
    yield collector
    traced._tracer.cache_clear()


@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_run_is_one_trace_of_its_parts(
    world: World, collector: Collector, in_flight: int
) -> None:
    """B22: open, member and close; below the member its batches with their steps."""
    world.produce(25)
    world.produce(5, partition=1)
    world.begin("dag/run", Bounds(10, in_flight=in_flight))
    world.drain("dag/run")
    world.close("dag/run")
    spans = collector.spans()
    assert [one.name for one in spans if not one.parent] == ["open", "member", "close"]
    assert len({one.trace for one in spans}) == 1
    [member] = collector.named("member")
    batches = collector.named("batch")
    assert [one.told["tidemark.batch.seq"] for one in batches] == [1, 2, 3]
    assert {one.parent for one in batches} == {member.id}
    for batch in batches:
        assert set(collector.below(batch)) >= {"drain", "stage", "publish", "mirror"}
        steps = [one for one in spans if one.parent == batch.id]
        assert all(batch.begin <= one.begin <= one.end <= batch.end for one in steps)
    assert len([one for one in spans if one.name == "plan"]) >= 3
    assert collector.below(batches[0])[0] == "plan"
    assert sum(one.told["tidemark.batch.rows"] for one in collector.named("publish")) == 30
    assert {one.error for one in spans} == {""}


@pytest.mark.long
def test_parts_say_whose_they_are(world: World, collector: Collector) -> None:
    """B22: region, run, epoch; and no secret, nor anything that a record says."""
    said = b"what a record says"  # no id of a trace holds it, as it may hold "bad"
    produce(world.kafka, world.topic, [said])
    world.run("dag/run")
    for one in collector.spans():
        assert one.service == "tidemark"
        if not one.parent:
            assert one.told["tidemark.region"] == world.region
            assert (one.told["tidemark.run_id"], one.told["tidemark.epoch"]) == ("dag/run", 1)
    [publish] = collector.named("publish")
    assert publish.told["tidemark.batch.dead_letters"] == 1
    sent = b"".join(collector.bodies)
    assert world.warehouse["password"].encode() not in sent
    assert said not in sent


@pytest.mark.long
def test_a_trace_that_is_under_way_goes_on(
    world: World, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: TRACEPARENT names the span that started this process, as Airflow's task does."""
    monkeypatch.setenv("TRACEPARENT", PARENT)
    world.run()
    parts = [one for one in collector.spans() if one.name in ("open", "member", "close")]
    assert {(one.trace, one.parent) for one in parts} == {tuple(PARENT.split("-")[1:3])}


@pytest.mark.parametrize("in_flight", [1, 2])
def test_what_fails_says_its_code(world: World, collector: Collector, in_flight: int) -> None:
    """B22: and nothing of its text; every span that began has ended."""
    world.produce(1)
    world.before = fail
    world.begin("run", Bounds(10, in_flight=in_flight))
    with pytest.raises(JobFailed):
        world.drain()
    failed = {one.name: one.error for one in collector.spans() if one.error}
    assert failed == dict.fromkeys(("drain", "batch", "member"), "JOB_FAILED")
    assert b"as the test wants it" not in b"".join(collector.bodies)


class RowTooWide(TargetRefused):
    """An error as a room has them, with a field of each kind."""

    region: str
    table: str
    constraint: str
    epoch: int
    seconds: float
    is_last: bool
    cause: str
    values: tuple[str, ...]
    counts: tuple[int, ...]
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.table}: {self.cause}"


@pytest.mark.long
def test_what_fails_says_its_case_and_where_and_nothing_of_a_row(collector: Collector) -> None:
    """B22: numbers, and texts that are names of the pipeline's own things."""
    with pytest.raises(RowTooWide), traced.traced_run("open", "flights", "one"):
        raise RowTooWide(
            region="flights", table="public.records", constraint="wide", epoch=3, seconds=0.5,
            is_last=True, cause="SECRET", values=("SECRET",), counts=(1,),
        )  # fmt: skip
    [span] = collector.spans()
    assert (span.error, span.told["error.type"]) == ("TARGET_REFUSED", "TARGET_REFUSED")
    prefix = "tidemark.error."
    told = {n.removeprefix(prefix): v for n, v in span.told.items() if n.startswith(prefix)}
    assert told == {
        "case": "RowTooWide", "region": "flights", "table": "public.records", "constraint": "wide",
        "epoch": 3, "seconds": 0.5, "is_last": True,
    }  # fmt: skip
    assert b"SECRET" not in b"".join(collector.bodies)


def test_an_error_of_another_library_says_its_class_alone(collector: Collector) -> None:
    """B22: its code may be anything, as that of SystemExit is."""
    with pytest.raises(SystemExit), traced.traced_run("open", "flights", "one"):
        raise SystemExit("SECRET")
    [span] = collector.spans()
    assert (span.error, span.told["error.type"]) == ("SystemExit", "SystemExit")
    assert b"SECRET" not in b"".join(collector.bodies)


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    ["hangs", "refuses", "is gone"],
)
def test_a_collector_that_fails_hurts_no_run(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """B22: the end of a part waits for it no longer than FLUSH_SECONDS."""
    monkeypatch.setattr(otel, "FLUSH_SECONDS", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600" if fault == "hangs" else "60")
    world.produce(3)
    with collecting(503, is_hanging=fault == "hangs") as collector:
        if fault == "is gone":
            collector.url = "http://127.0.0.1:1"
        for _ in traced_to(collector, monkeypatch):
            assert world.run().rows == 3
            assert not collector.answered or fault == "refuses"
    assert bool(collector.bodies) == (fault != "is gone")


@pytest.mark.long
def test_nothing_is_imported_unless_traces_are_wanted() -> None:
    """B22: a run costs nothing more then."""
    code = (
        "import sys; from tidemark.tracing.traced import traced, traced_run, for_child\n"
        "import tidemark.runs.member, tidemark.runs.open, tidemark.admin.run\n"
        "with traced_run('open', 'r', 'x'), traced('plan'): pass\n"
        "assert for_child() == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    for given in ({}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}):
        place = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} if given else {}
        told = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), **given, **place},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == "[]"


def test_without_the_library_a_run_goes_on(
    world: World,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B22: a warning says what to install."""
    monkeypatch.setitem(sys.modules, "tidemark.tracing.otel", None)
    world.run()
    assert "install airflow-provider-tidemark[otel]" in caplog.text
    assert collector.bodies == []


@pytest.mark.long
def test_a_child_belongs_to_airflows_span(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: where Airflow traces; where it does not, the ids of its spans lead nowhere."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    assert traced.for_child() == {}
    airflows = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: airflows)
    with airflows.get_tracer("airflow").start_as_current_span("worker.drain") as span:
        told = traced.for_child()["TRACEPARENT"]
    assert told.split("-")[1] == f"{span.get_span_context().trace_id:032x}"
