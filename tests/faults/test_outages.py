"""Kafka is away for a while in the middle of a run: that is waited out, and the drivers live."""

import shutil
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.broken import Broken
from tests.faults.region import FaultRegion
from tests.support.executor import LocalExecutor
from tests.support.processes import resume
from tests.support.sharing import worker
from tests.support.waiting import outlast, until
from tests.support.world import World

from tidemark.errors import Unreachable
from tidemark.kafka import description, facts
from tidemark.kafka.group import Group
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.runs import _stall, outage
from tidemark_local._broker import LocalBroker
from tidemark_local._folder import Folder
from tidemark_local.stack import LocalStack

POINTS = (
    "plan.before=stop@2",
    "read.middle=stop",
    "drain.staged=stop@2",
    "publish.commit.after=stop",
    "close.before=stop",
)
OUTAGES = [(5 + 55 * n // 19, POINTS[n % len(POINTS)]) for n in range(20)]
"""Seconds, and where a driver stands meanwhile."""


@pytest.fixture(scope="module")
def broker(stack: LocalStack) -> Iterator[LocalBroker]:
    """A broker that a test may stop: no other test has it."""
    state = stack.folder.root
    folder = Folder(state.with_name(f"{state.name}-outages{worker()}"))
    folder.create()
    broker = LocalBroker(folder)
    broker.start()
    yield broker
    broker.stop()
    shutil.rmtree(folder.root, ignore_errors=True)


@pytest.fixture
def new_topic(broker: LocalBroker) -> str:
    """A topic of three partitions on that broker, which runs whatever the test before did."""
    broker.start()
    name = f"t-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(120)
    return name


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are given up after a second, and a member that waits soon asks who holds what.

    Of a run that is open: it goes on without an answer, and an open does not.
    """
    for module in (facts, description):
        monkeypatch.setattr(module, "SECONDS", 1)
    monkeypatch.setattr(_stall, "FOREIGN_SECONDS", 0.5)
    monkeypatch.setattr(_stall, "JUDGE_PAUSE", 0.2)
    monkeypatch.setattr(outage, "PAUSE_SECONDS", 0.2)


def ask_round_and_round(bootstrap: str, group_id: str, away: Event) -> None:
    """Ask who is in a group; after ten questions without an answer, until there is one."""
    description.SECONDS = 0.3  # type: ignore[assignment, attr-defined]
    group, unanswered = Group({"bootstrap.servers": bootstrap}, group_id), 0
    while True:
        try:
            group.describe()
        except Unreachable:
            unanswered += 1
        else:
            if away.is_set():
                return
        if unanswered == 10:
            description.SECONDS = 30  # type: ignore[attr-defined]
            away.set()


def test_a_driver_that_works_and_one_that_waits_outlive_an_outage(
    broker: LocalBroker,
    new_topic: str,
    warehouse: dict[str, Any],
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S25, B16: each round is named, and the run goes on in its epoch."""
    world = World(broker.bootstrap, warehouse, new_topic, group)
    world.settings = {"no_progress_seconds": 150, "kafka": {"session_timeout_seconds": 3}}
    for partition in range(3):
        world.produce(6, partition)
    arrived: list[LocalExecutor] = []

    def both_have_a_share(executor: LocalExecutor, _: Batch, spans: Sequence[Span]) -> None:
        until(lambda: sum(bool(one.partitions) for one in world.group.holders()) == 2)
        until(lambda: len(spans) < 3 or executor.interrupted.is_set())

    def stop_beside_one_that_waits(executor: LocalExecutor, *_: object) -> None:
        arrived.append(executor)
        if len(arrived) == 2:
            until(lambda: world.sql("SELECT 1 FROM tidemark.contributions"))
            broker.stop(signal.SIGKILL)
            until_round(f"group {group}")  # by the one that waits, as long as there is no publish

    def until_round(what: str) -> None:
        until(lambda: any(is_round(line, what) for line in list(caplog.messages)))

    world.before, world.after = both_have_a_share, stop_beside_one_that_waits
    world.open(max_records=9)
    hasten(monkeypatch)
    processes = get_context("spawn")
    away = processes.Event()
    onlooker = processes.Process(target=ask_round_and_round, args=(world.kafka, group, away))
    onlooker.start()
    members = [world.member(slot) for slot in (1, 2)]
    until_round(f"topic {new_topic}")
    assert away.wait(120)
    broker.start()
    assert sum(member.result(300).rows for member in members) == 18
    assert world.close().rows == 18 == len(world.rows())
    assert world.sql("SELECT epoch FROM tidemark.regions") == [(1,)]
    onlooker.join(120)
    assert onlooker.exitcode == 0


def is_round(line: str, what: str) -> bool:
    """Whether it names a round in which this had no answer."""
    return line.startswith("OUTAGE: no answer for ") and f": {what}: " in line


@pytest.fixture
def away(
    broker: LocalBroker, new_topic: str, warehouse: dict[str, Any], group: str
) -> Iterator[FaultRegion]:
    """A filled region whose broker runs again afterwards."""
    region = FaultRegion(broker.bootstrap, warehouse, new_topic, group)
    region.fill()
    yield region
    broker.start()


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "point"), OUTAGES)
def test_two_drivers_outlive_an_outage(
    broker: LocalBroker, away: FaultRegion, seconds: int, point: str
) -> None:
    """S25, B16: wherever they stand, in processes that an assertion of librdkafka would end."""
    away.open()
    first = Broken.start(away, "retry", point)
    stopped = first.wait_until_stopped()
    drivers = [first, Broken.start(away, "member")]
    until(lambda: len(away.sql("SELECT 1 FROM tidemark.members")) == 2)
    broker.stop(signal.SIGKILL)
    resume(stopped)
    outlast(seconds)
    broker.start()
    for driver in drivers:
        code, words = driver.end()
        assert code == 0, words
    assert away.sql("SELECT epoch FROM tidemark.regions") == [(1,)]
    assert away.faults_found() == []
