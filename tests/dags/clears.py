"""Runs hosts of the pipeline's group, clears tasks of them, and prints what became of each as JSON.

Airflow's own rules are under test: what a clear takes along, what runs then, which colour the run
has. The functions that tasks call are stand-ins over a ledger of one run; all else is real.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk import timezone
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select
from sqlalchemy.orm import Session
from tests.support.airflows import (
    SETUPS_COME_ALONG,
    DagBag,
    keep_one_api_server,
    sync_bag_to_db,
    taken_by_clear,
)

from tidemark.admin import announce as announce_module
from tidemark.admin import reset as reset_module
from tidemark.admin import run as run_module
from tidemark.admin.errors import ResetOfClosedRun, RunNotClosed
from tidemark.airflow.compat import AirflowFailException
from tidemark.airflow.operators import DrainOperator
from tidemark.errors import Fenced, Refused, Superseded
from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import TopicPartition
from tidemark.protocol.close import Closed
from tidemark.runs import open as open_module
from tidemark.runs.open import Opened

PIPELINE = Path(__file__).resolve().parents[2] / "dags" / "flights.yaml"
HOSTS = f"""
from os import environ
from airflow.providers.standard.operators.python import PythonOperator, ShortCircuitOperator
from airflow.sdk import DAG
from tidemark.airflow import (
    CloseOperator, DrainOperator, OpenOperator, VerdictOperator, pipeline_task_group
)

for name, tail in dict(both=("report", "tell"), tells=("tell",)).items():
    with DAG(name, schedule=None, max_active_runs=1, default_args=dict(retries=0)) as dag:
        group = pipeline_task_group({str(PIPELINE)!r}, group_id="g", default_args=dict(retries=0))
        rules = dict(report="all_success", tell="all_done")
        for one in tail:
            group >> PythonOperator(task_id=one, python_callable=print, trigger_rule=rules[one])
    globals()[name] = dag

with DAG("twice", schedule=None, max_active_runs=1, default_args=dict(retries=0)) as twice:
    groups = [pipeline_task_group({str(PIPELINE)!r}, group_id=one) for one in ("a", "b")]
    groups[0] >> groups[1]
    each = PythonOperator.partial(task_id="each", python_callable=print)
    each.expand(op_args=twice.get_task("b.close").output)

with DAG("skips", schedule=None, max_active_runs=1) as skips:
    nothing = ShortCircuitOperator(task_id="nothing", python_callable=lambda: False)
    nothing >> pipeline_task_group({str(PIPELINE)!r}, group_id="g")

file = {str(PIPELINE)!r}
with DAG("hand", schedule=None, max_active_runs=1, default_args=dict(retries=0)) as hand:
    opened = OpenOperator(task_id="open", pipeline=file)
    drained = DrainOperator.partial(task_id="drain", pipeline=file).expand(member=[1, 2])
    closed = CloseOperator(task_id="close", pipeline=file)
    check = PythonOperator(
        task_id="check", python_callable=lambda: 1 // int(environ.get("CHECK", "1"))
    )
    verdict = VerdictOperator(task_id="verdict", pipeline=file).as_bound_of(opened)
    opened >> drained >> closed >> check >> verdict
    drained >> PythonOperator(task_id="seen", python_callable=print) >> verdict

with DAG("judged", schedule=None, max_active_runs=1, default_args=dict(retries=0)) as judged:
    opened = OpenOperator(task_id="open", pipeline=file)
    drained = DrainOperator(task_id="drain", pipeline=file, member=1)
    closed = CloseOperator(task_id="close", pipeline=file)
    tidy = PythonOperator(task_id="tidy", python_callable=print, trigger_rule="all_done")
    verdict = VerdictOperator(task_id="verdict", pipeline=file)
    end = VerdictOperator(task_id="end", pipeline=file).as_bound_of(opened)
    opened >> drained >> closed >> tidy >> verdict >> end
"""

GROUP = ("open", "drain", "close", "reset", "verdict", "end")
TASKS = (*(f"g.{name}" for name in GROUP), "report", "tell")

GOOD = dict.fromkeys((*GROUP, "report", "tell"), "success") | {"reset": "skipped"}
BAD = {
    "open": "success", "drain": "failed", "close": "failed", "reset": "success",
    "verdict": "upstream_failed", "end": "failed", "report": "upstream_failed", "tell": "success",
}  # fmt: skip
WERE: dict[str, dict[str, str]] = {
    "closed": GOOD,
    "pruned": GOOD,
    "failed": BAD | {"reset": "failed"},
    "superseded": BAD,
    "open": BAD | {"close": "skipped", "reset": "skipped", "verdict": "skipped"},
}
"""What tasks had become, by the run's state in the ledger; pruned: it was closed, long ago."""

CUT = (("g.close", "g.verdict"), ("g.drain", "g.close", "g.reset", "g.verdict"))
"""What the first tier clears, of a run that was closed, failed or open."""


@dataclass
class OneRun:
    """The ledger, as far as it knows this run; its functions are those that tasks call."""

    state: str | None = None
    """None: it never opened, or it is pruned."""
    epoch: int = 0
    is_drained: bool = False
    is_refused: bool = False
    before_drain: Callable[[], None] | None = None
    after_drain: Callable[[], None] | None = None
    dies_in_close: bool = False
    """Once it is closed."""
    told: list[tuple[str, str]] = field(default_factory=list)
    """Which run each task has named."""
    confirmed: list[str] = field(default_factory=list)
    """Runs of which the ledger knows that readers were told."""

    def open(self, *_: object, run_id: str, **__: object) -> Opened:
        self.told.append(("open", run_id))
        if self.is_refused:
            raise Refused
        self.state, self.is_drained = "open", False
        self.epoch += 1
        return Opened(self.epoch, 1, {})

    def drain(self, *_: object, context: Any) -> None:
        self.told.append(("drain", context["task"]._identity(context)["TIDEMARK_RUN_ID"]))
        if self.before_drain:
            self.before_drain()
        if self.state != "open":
            raise AirflowFailException("fenced")
        self.is_drained = True
        if self.after_drain:
            self.after_drain()

    def close(self, *_: object, run_id: str, **__: object) -> Closed:
        self.told.append(("close", run_id))
        if self.state == "superseded":
            raise Fenced
        if self.state in ("open", "failed"):
            self.state = "closed" if self.is_drained else "failed"
        if self.dies_in_close:
            raise AirflowFailException
        return self._closed()

    def check(self, *_: object, run_id: str, **__: object) -> Closed:
        self.told.append(("check", run_id))
        return self._closed()

    def confirm(self, *_: object, run_id: str, **__: object) -> bool:
        self.confirmed.append(run_id)
        return True

    def _closed(self) -> Closed:
        if self.state != "closed":
            raise RunNotClosed(region="flights", run_id="run", state=self.state)
        at = Checkpoint("flights", self.epoch, 1, {TopicPartition("flights", 0): 1})
        return Closed(at, 0, 0, 0, 0)

    def reset(self, *_: object, **__: object) -> Any:
        if self.state == "closed":
            raise ResetOfClosedRun(region="flights", run_id="run")
        if self.state in ("open", "failed"):
            self.state = "superseded"
        raise Superseded  # whose report nobody reads


def _install(ledger: OneRun) -> None:
    open_module.open_run = ledger.open
    run_module.close_run = ledger.close
    run_module.check_closed = ledger.check
    setattr(run_module, "reset_region", ledger.reset)  # noqa: B010 -- its own name for it
    reset_module.reset_region = ledger.reset
    announce_module.news = lambda *_, **__: None
    announce_module.confirm = ledger.confirm
    DrainOperator.execute = ledger.drain  # type: ignore[assignment,method-assign]


class Host:
    """A DAG with the group, of which one run is driven again and again."""

    def __init__(self, bag: DagBag, name: str) -> None:
        self.dag = bag.dags[name]
        self.scheduled = SerializedDagModel.get_dag(name)
        self.scheduled.create_dagrun(
            run_id="run",
            run_type=DagRunType.MANUAL,
            run_after=timezone.utcnow(),
            logical_date=None,
            state="running",
            triggered_by=DagRunTriggeredByType.TEST,
        )

    @contextmanager
    def run(self) -> Iterator[tuple[DagRun, Session]]:
        """The run as the database has it now; a task that ran has closed the session before."""
        with create_session() as session:
            found = select(DagRun).where(DagRun.dag_id == self.dag.dag_id, DagRun.run_id == "run")
            run = session.scalars(found).one()
            run.dag = self.scheduled
            yield run, session

    def drive(self) -> str:
        """To its end, as the scheduler would; return its colour."""
        for _ in range(40):
            with self.run() as (run, session):
                ready, _ = run.update_state(session=session)
                if run.state != "running":
                    return str(run.state)
                for ti in ready:
                    ti.try_number += 1
                    ti.state = "scheduled"
                session.expire_on_commit = False
                session.commit()
                session.expunge_all()
            for ti in ready:
                _run_task(ti=ti, task=self.dag.task_dict[ti.task_id])
        raise AssertionError(f"never ends: {self.states()}")

    def states(self) -> dict[str, str]:
        with self.run() as (run, session):
            found = run.get_task_instances(session=session)
            return {ti.task_id.removeprefix("g."): str(ti.state) for ti in found}

    def put(self, states: dict[str, str]) -> None:
        with self.run() as (run, session):
            for ti in run.get_task_instances(session=session):
                ti.state = states.get(ti.task_id.removeprefix("g."))
            run.state = "running"

    def taken(self, tasks: Collection[str], *, downstream: bool) -> frozenset[str]:
        """What Airflow clears with these, as its page would."""
        return frozenset(taken_by_clear(self.scheduled, "run", tasks, downstream=downstream))

    def clear(self, tasks: Iterable[str]) -> None:
        self.scheduled.clear(task_ids=list(tasks), run_id="run", dag_run_state="running")


def subsets(tasks: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All subsets of tasks."""
    return chain.from_iterable(combinations(tasks, n) for n in range(1, len(tasks) + 1))


def choices() -> Iterator[tuple[tuple[str, ...], bool]]:
    """What a person may clear, and whether with what follows.

    Where setups do not come along, each subset takes other tasks: those of the group alone then,
    and each task by itself.
    """
    yield from ((one, False) for one in subsets(TASKS if SETUPS_COME_ALONG else TASKS[:6]))
    yield from (((task,), how) for task in TASKS for how in (False, True))


def cleared(host: Host, ledger: OneRun, was: str | None) -> list[dict[str, Any]]:
    """Each clear of a run that was so; of those that take the same tasks along, one."""
    different: dict[frozenset[str], tuple[str, ...]] = {}
    for chosen, downstream in choices() if was else ((one, False) for one in CUT):
        different.setdefault(host.taken(chosen, downstream=downstream), chosen)
    return [
        cleared_once(host, ledger, one, chosen, taken)
        for one in ((was,) if was else ("closed", "failed", "open"))
        for taken, chosen in different.items()
    ]


def cleared_once(
    host: Host, ledger: OneRun, was: str, chosen: tuple[str, ...], taken: frozenset[str]
) -> dict[str, Any]:
    ledger.state = None if was == "pruned" else was
    ledger.epoch, ledger.is_drained = 1, was in ("closed", "pruned")
    host.put(WERE[was])
    host.clear(taken)
    run = host.drive()
    return {
        "was": was, "chosen": chosen, "taken": sorted(taken), "run": run, "ledger": ledger.state,
        "epoch": ledger.epoch, "tasks": host.states(),
    }  # fmt: skip


def fresh(host: Host, ledger: OneRun, **how: Any) -> dict[str, Any]:
    """A run from its beginning; `how` is what its ledger does."""
    vars(ledger).update(vars(OneRun(**how)))
    host.put({})
    return {"run": host.drive(), "ledger": ledger.state, "tasks": host.states()}


def ended(host: Host, ledger: OneRun, *, in_drain: bool) -> dict[str, Any]:
    """A run that a person marks as failed before its open, or while it drains."""

    def mark() -> None:
        set_dag_run_state_to_failed(dag=host.scheduled, run_id="run", commit=True)

    vars(ledger).update(vars(OneRun(before_drain=mark if in_drain else None)))
    host.put({})
    if not in_drain:
        mark()
    return {"run": host.drive(), "ledger": ledger.state, "tasks": host.states()}


def by_hand(host: Host, ledger: OneRun) -> dict[str, Any]:
    """A run that is wired by hand: good, without an open, its drain fails, its own check fails.

    And its members fail when their work is done, so that its own `seen` does not run.
    """

    def fail() -> None:
        raise AirflowFailException

    hows: dict[str, dict[str, Any]] = {
        "well": {}, "refused": {"is_refused": True}, "undrained": {"before_drain": fail},
        "unseen": {"after_drain": fail},
    }  # fmt: skip
    found = {
        name: fresh(host, ledger, **how) | {"confirmed": ledger.confirmed}
        for name, how in hows.items()
    }
    with patch.dict(os.environ, CHECK="0"):
        return found | {"unchecked": fresh(host, ledger) | {"confirmed": ledger.confirmed}}


def main(was: str | None = None) -> None:
    """All hosts, and a cut of the clears; or all clears of a run that was so."""
    initdb()
    keep_one_api_server()
    ledger = OneRun()
    _install(ledger)
    DagBundlesManager().sync_bundles_to_db()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "hosts.py"
        file.write_text(HOSTS)
        bag = DagBag(dag_folder=file, safe_mode=False)
        assert not bag.import_errors, bag.import_errors
        sync_bag_to_db(bag, "dags-folder", None)
        both, tells, twice, skips, hand, judged = (
            Host(bag, name) for name in ("both", "tells", "twice", "skips", "hand", "judged")
        )
        if was:
            print(json.dumps({"cleared": cleared(both, ledger, was)}, default=str))
            return
        found = {
            "refused": {h.dag.dag_id: fresh(h, ledger, is_refused=True) for h in (both, tells)},
            "well": {h.dag.dag_id: fresh(h, ledger) for h in (both, tells)},
            "ended before open": ended(tells, ledger, in_drain=False),
            "ended in drain": ended(tells, ledger, in_drain=True),
            "cleared": cleared(both, ledger, None),
            "skips": fresh(skips, ledger) | {"told": ledger.told},
            "twice": fresh(twice, ledger) | {"told": ledger.told},
            "by hand": by_hand(hand, ledger),
            "judged": {
                how: fresh(judged, ledger, dies_in_close=dies) | {"confirmed": ledger.confirmed}
                for how, dies in {"well": False, "dies": True}.items()
            },
        }
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
