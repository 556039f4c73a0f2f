"""Runs the worked DAGs once per scenario and prints what became of them, as JSON.

Airflow's own rules are under test, so the functions that tasks call are
stand-ins that succeed or fail as the scenario says; everything else is real.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk import timezone
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import select
from tests.support.airflows import DagBag, keep_one_api_server, taken_by_clear

from tidemark.admin import announce as announce_module
from tidemark.admin import reset as reset_module
from tidemark.admin import run as run_module
from tidemark.admin.announce import News
from tidemark.admin.reset import Removed, ResetReport
from tidemark.airflow import tasks as tasks_module
from tidemark.airflow.compat import AirflowFailException
from tidemark.airflow.operators import DrainOperator
from tidemark.errors import Refused, RunNotDone, Superseded, TidemarkError, Unreachable
from tidemark.ledger.actions import Order
from tidemark.ledger.queries import PublishedCounts
from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import TopicPartition
from tidemark.protocol.close import Closed
from tidemark.protocol.errors import OpenOvertaken
from tidemark.runs import open as open_module
from tidemark.runs.open import Opened

DAGS = Path(__file__).resolve().parents[2] / "dags"

SCENARIOS: dict[str, dict[str, type[Exception]]] = {
    "all is well": {},
    "a member fails and others do its work": {"drain": AirflowFailException},
    "the run is not done": {"close": RunNotDone},
    "a member fails and the run is not done": {"drain": AirflowFailException, "close": RunNotDone},
    "open fails": {"open": Refused},
    "the reset fails too": {"close": RunNotDone, "reset": Refused},
    "the reset is superseded": {"close": RunNotDone, "reset": Superseded},
    "Postgres is away for a moment at close": {"close": Unreachable},
    "another run is at work for a moment": {"open": OpenOvertaken},
    "something new is published": {},
    "nothing can be told": {"news": ValueError, "confirm": ValueError, "xcom": ValueError},
    "the ledger does not learn what is told": {"announce": ValueError},
    "it is told again": {},
}
SEQS = {
    "something new is published": 9,
    "nothing can be told": 11,
    "the ledger does not learn what is told": 11,
    "it is told again": 11,
}
"""Checkpoint at which a scenario closes; 7 for the others, that the first one tells of."""
FIRST_TIER = {
    "all is well",
    "a member fails and others do its work",
    "the run is not done",
    "open fails",
    "something new is published",
    "as it comes up",
    "a checkpoint",
}
"""The scenarios and forms of `make test`, for each takes seconds."""
BY_HAND: list[dict[str, Any]] = [
    {"seq": None},
    {"seq": "x"},
    {"seq": 9999, "kind": "published"},
    {},
]
"""What somebody else's events of the same asset say, the newest of all when each run begins."""
MOMENTARY = (Unreachable, OpenOvertaken)

FORMS: dict[str, dict[str, Any]] = {
    "as it comes up": {},
    "a checkpoint": {"to": "41", "apply": True, "why": "a drill"},
    "the same checkpoint, cleared": {"to": "41", "apply": True, "why": "a drill"},
    "the initial state": {"to": "initial"},
    "a time": {"to": "2026-01-31T12:00:00Z"},
    "no such day": {"to": "2026-02-31"},
    "as it comes up, applied": {"apply": True},
}
"""Of the DAG that resets by hand."""

FIRST = TopicPartition("flights", 0)
REMOVED = Removed(3, 2, 1, {FIRST: 70}, {FIRST: 5})


@dataclass
class StandIns:
    """Functions of the rooms below that fail as told and note what they were called with."""

    failing: dict[str, type[Exception]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    seq: int = 7
    announcing: int = 0
    announced: int = 0

    def close(self, *_: object, **arguments: Any) -> Closed:
        self.named("close")(**arguments)
        return self._closed

    def check(self, *_: object, **arguments: Any) -> Closed:
        self.named("verdict")(**arguments)
        if {"open", "close"} & self.failing.keys():
            raise RunNotDone
        return self._closed

    def end(self, *given: object, **arguments: Any) -> Closed:
        return self.check(*given, **arguments)

    @property
    def _closed(self) -> Closed:
        return Closed(Checkpoint("flights", 3, self.seq, {FIRST: 42}), 2, 30, 4, 34)

    def news(self, pipeline: object, connections: object, closed: object) -> News | None:
        self.fail("news")
        if self.seq == self.announced:
            return None
        return News(self.announced, PublishedCounts(2, 30, 4))

    def announce(self, *_: object, seq: int, **__: object) -> None:
        self.fail("announce")
        self.announcing = seq

    def confirm(self, *_: object, **arguments: Any) -> bool:
        self.named("confirm")(**arguments)
        self.announced = self.announcing
        return True

    def reset(self, *given: Any, **arguments: Any) -> ResetReport:
        order: Order | None
        *_, order = given
        told = {"why": order.why if order else None, "run_id": None}
        self.named("reset")(**told | arguments)
        report = ResetReport("flights", order is not None, 3, 7, 7, (), {FIRST: 40}, ())
        if arguments.get("to") is None:
            return report
        return replace(report, to_seq=4, removed=REMOVED)

    def named(self, name: str, answer: object = None) -> Callable[..., Any]:
        def stand_in(*_: object, **arguments: Any) -> object:
            self.calls.append((name, arguments))
            self.fail(name)
            return answer

        return stand_in

    def fail(self, name: str) -> None:
        kind = self.failing.get(name)
        if kind in MOMENTARY:
            del self.failing[name]
        if kind is not None:
            raise _error(kind, name)


def _error(kind: type[Exception], name: str) -> Exception:
    if kind is OpenOvertaken:
        return OpenOvertaken(region="flights", run_id="run", epoch=2, now_at=3)
    return kind() if issubclass(kind, TidemarkError) else kind(f"{name} fails, as told")


def main(whole: bool) -> None:
    initdb()
    keep_one_api_server()
    stand_ins = StandIns()
    _install(stand_ins)
    chosen = SCENARIOS.keys() | FORMS.keys() if whole else FIRST_TIER
    runs = {name: run(stand_ins, name) for name in SCENARIOS if name in chosen}
    resets = {name: reset(stand_ins, form) for name, form in FORMS.items() if name in chosen}
    print(json.dumps({"runs": runs, "resets": resets}, default=str))


def run(stand_ins: StandIns, name: str) -> dict[str, Any]:
    """A fresh DagBag each time: `dag.test` keeps the parameters of the run before."""
    stand_ins.failing, stand_ins.calls = dict(SCENARIOS[name]), []
    stand_ins.seq = SEQS.get(name, 7)
    dag = DagBag(dag_folder=DAGS / "flights.py", safe_mode=False).dags["flights"]
    for task in dag.tasks:
        if not task.is_mapped:
            task.retry_delay = task.retry_delay * 0
    conf = {"max_batches": 5, "max_bytes": 9000, "accept_changes": True}
    _send_by_hand(dag)
    with listening() as lines:
        dag_run = dag.test(run_conf=conf)
    return {
        "lines": lines,
        "xcoms": {
            ti.task_id: ti.xcom_pull(task_ids=ti.task_id)
            for ti in dag_run.get_task_instances()
            if ti.map_index < 0
        },
        "run": dag_run.state,
        "run_id": dag_run.run_id,
        "tasks": {ti.task_id: ti.state for ti in dag_run.get_task_instances()},
        "members": sorted(
            ti.rendered_map_index
            for ti in dag_run.get_task_instances()
            if ti.task_id == "drain" and ti.rendered_map_index
        ),
        "tries": {ti.task_id: ti.try_number for ti in dag_run.get_task_instances()},
        "calls": stand_ins.calls,
        "events": _events(dag_run.run_id),
        "cleared": _cleared(dag_run.run_id),
    }


def reset(stand_ins: StandIns, form: dict[str, Any]) -> dict[str, Any]:
    """What a person's form becomes, and what XCom keeps of the report."""
    stand_ins.failing, stand_ins.calls = {}, []
    bag = DagBag(dag_folder=DAGS / "flights_reset.py", safe_mode=False)
    dag = bag.dags["flights_reset"]
    with listening() as lines:
        dag_run = dag.test(run_conf=form)
    (ti,) = dag_run.get_task_instances()
    return {
        "state": ti.state,
        "tries": ti.try_number,
        "run_id": dag_run.run_id,
        "calls": [arguments for _, arguments in stand_ins.calls],
        "report": ti.xcom_pull(),
        "lines": lines,
        "events": _events(dag_run.run_id),
    }


@contextmanager
def listening() -> Iterator[list[str]]:
    """What the tasks write into their log while the block runs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("tidemark.airflow.tasks")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)


def _install(stand_ins: StandIns) -> None:
    opened = Opened(3, 34, {FIRST: 42}, ("a remark",))
    tasks_module.LOOK_AGAIN = timedelta(0)
    open_module.open_run = stand_ins.named("open", opened)
    run_module.close_run = stand_ins.close
    run_module.check_closed = stand_ins.check
    run_module.end_run = stand_ins.end
    announce_module.news = stand_ins.news
    announce_module.announce = stand_ins.announce
    announce_module.confirm = stand_ins.confirm
    announce_module.told_of_rewind = lambda *_, **__: stand_ins.fail("told of rewind")
    push = RuntimeTaskInstance.xcom_push

    def pushing(ti: RuntimeTaskInstance, *given: Any) -> None:
        stand_ins.fail("xcom")
        push(ti, *given)

    RuntimeTaskInstance.xcom_push = pushing
    reset_module.reset_region = stand_ins.reset
    DrainOperator.execute = lambda *_, **__: stand_ins.fail("drain")  # type: ignore[method-assign]


def _send_by_hand(dag: Any) -> None:
    """As people and other tasks may, who have nothing to do with the pipeline."""
    asset, _ = dag.task_dict["close"].outlets
    with create_session() as session:
        kept = session.scalar(select(AssetModel).where(AssetModel.uri == asset.uri))
        for extra in BY_HAND if kept else ():
            session.add(AssetEvent(asset_id=kept.id, extra=extra, timestamp=timezone.utcnow()))


def _events(run_id: str) -> list[Any]:
    with create_session() as session:
        query = select(AssetEvent).where(AssetEvent.source_run_id == run_id)
        return [event.extra for event in session.scalars(query)]


def _cleared(run_id: str) -> dict[str, dict[str, list[str]]]:
    """Which tasks Airflow clears when a person clears this one: alone, or with what follows it."""
    dag = SerializedDagModel.get_dag("flights")
    return {
        task: {
            how: sorted(taken_by_clear(dag, run_id, [task], downstream=how == "downstream"))
            for how in ("alone", "downstream")
        }
        for task in ("drain", "close", "reset", "verdict")
    }


if __name__ == "__main__":
    main(whole="whole" in sys.argv)
