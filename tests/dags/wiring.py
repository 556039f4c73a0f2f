"""Runs the worked DAG once per scenario and prints what became of it, as JSON.

Airflow's own rules are under test, so the functions of tidemark.run are stand-ins that
succeed or fail as the scenario says; everything else is real.
"""

import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk.exceptions import AirflowFailException

from tidemark.airflow.operator import DrainOperator
from tidemark.checkpoint import Checkpoint
from tidemark.errors import Refused, RunNotDone, Superseded, Unreachable
from tidemark.offsets import TopicPartition

PROJECT = Path(__file__).resolve().parents[2]

SCENARIOS: dict[str, dict[str, type[Exception]]] = {
    "all is well": {},
    "a member fails and others do its work": {"drain": AirflowFailException},
    "the run is not done": {"close": RunNotDone},
    "a member fails and the run is not done": {"drain": AirflowFailException, "close": RunNotDone},
    "open fails": {"open": Refused},
    "the reset fails too": {"close": RunNotDone, "reset": Refused},
    "the reset is superseded": {"close": RunNotDone, "reset": Superseded},
    "Postgres is away for a moment at close": {"close": Unreachable},
}
MOMENTARY = (Unreachable,)


@dataclass
class StandIns:
    """Functions of tidemark.run that fail as told and note what they were called with."""

    failing: dict[str, type[Exception]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

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
            raise kind(f"{name} fails, as the scenario says")


def main() -> None:
    stand_ins = StandIns()
    _install(stand_ins)
    found = {name: run(stand_ins, failing) for name, failing in SCENARIOS.items()}
    print(json.dumps(found, default=str))


def run(stand_ins: StandIns, failing: dict[str, type[Exception]]) -> dict[str, Any]:
    """A fresh DagBag each time: `dag.test` keeps the parameters of the run before."""
    stand_ins.failing, stand_ins.calls = dict(failing), []
    dag = DagBag(dag_folder=PROJECT / "dags", safe_mode=False).dags["flights"]
    for task in dag.tasks:
        if not task.is_mapped:
            task.retry_delay = task.retry_delay * 0
    dag_run = dag.test(run_conf={"max_batches": 5})
    return {
        "run": dag_run.state,
        "run_id": dag_run.run_id,
        "tasks": {ti.task_id: ti.state for ti in dag_run.get_task_instances()},
        "tries": {ti.task_id: ti.try_number for ti in dag_run.get_task_instances()},
        "calls": stand_ins.calls,
        "events": _events(dag_run.run_id),
        "cleared": _cleared(dag_run.run_id),
    }


def _install(stand_ins: StandIns) -> None:
    checkpoint = Checkpoint("flights", 3, 7, {TopicPartition("flights", 0): 42})
    module: Any = types.ModuleType("tidemark.run")
    module.open_run = stand_ins.named("open")
    module.close_run = stand_ins.named("close", types.SimpleNamespace(checkpoint=checkpoint))
    module.reset_run = stand_ins.named("reset")
    sys.modules["tidemark.run"] = module
    DrainOperator.execute = lambda self, context: stand_ins.fail("drain")


def _events(run_id: str) -> list[Any]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetEvent).where(AssetEvent.source_run_id == run_id)
        return [event.extra for event in session.scalars(query)]


def _cleared(run_id: str) -> dict[str, list[str]]:
    """Which tasks Airflow clears when a person clears this one alone, without its relatives."""
    dag = SerializedDagModel.get_dag("flights")
    tasks = ("drain", "close", "reset", "verdict")
    return {
        task: sorted(ti.task_id for ti in dag.clear(dry_run=True, run_id=run_id, task_ids=[task]))
        for task in tasks
    }


if __name__ == "__main__":
    main()
