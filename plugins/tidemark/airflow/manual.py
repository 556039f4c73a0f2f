"""Factories of the DAGs that a person starts by hand: a reset, a replay.

A replay needs Spark, so its task runs the command line in a child process.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from airflow.sdk import DAG, Context

from tidemark.admin.replay_report import ReplayReport
from tidemark.airflow import results
from tidemark.airflow.assets import outlets_of
from tidemark.airflow.child import python, secrets
from tidemark.airflow.compat import AirflowException
from tidemark.airflow.errors import ApproversWithoutApproval
from tidemark.airflow.forms import replay_doc, replay_params, reset_doc, reset_params, who
from tidemark.airflow.results import as_airflow_failure
from tidemark.airflow.step import TOOLS, Params, PipelineOperator, dag_of, described
from tidemark.airflow.tasks import reset_by_hand
from tidemark.environment import without_airflow
from tidemark.errors import error_from_dict
from tidemark.settings.described import Role
from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)

PROGRAM = ("-m", "tidemark")
OPTIONS = ("since", "until", "partition", "limit")
"""Of the form and of the command alike."""


_children: list[subprocess.Popen[str]] = []
"""Of this task: one while it waits, and none else."""


class ResetByHand(PipelineOperator):
    """Reset the region, or rewind it, or say what that would change."""

    def execute(self, context: Context) -> results.Result:
        """Return the report."""
        return reset_by_hand(self.pipeline, context)


class ReplayByHand(PipelineOperator):
    """Replay dead letters, or say what that would do.

    It works in a child, which ends with the task: nothing is published after it. A run that is
    cleared does it again: it finds what is still a dead letter.
    """

    def execute(self, context: Context) -> results.Result:
        """Return the report."""
        pipeline = Pipeline.load(self.pipeline)
        with as_airflow_failure():
            own = secrets(pipeline) | python(pipeline) | {"LOGNAME": who(context)}
            command = [*arguments(self.pipeline, context["params"])]
            answer = _answer(command, without_airflow() | own)
        report = ReplayReport(**answer)
        for line in results.replay_log(report):
            log.info("%s", line)
        return results.of_replay(report)

    def on_kill(self) -> None:
        """Leave no process of the child; Airflow calls this in the midst of the task."""
        for child in _children:
            _end(child)


def arguments(path: str, form: Mapping[str, Any]) -> Iterator[str]:
    """What the command line is told."""
    yield from (
        "replay",
        str(Path(path).resolve()),
        "--output",
        "json",
        "--why",
        form["why"] or "by hand",
    )
    yield "--dead-letters"
    if form.get("batch") is not None:  # of a trigger for an older form: the command refuses it
        yield from ("--batch", str(form["batch"]))
    for reason in (form["reasons"] or "").replace(",", " ").split():
        yield from ("--reason", reason)
    for name in OPTIONS:
        if form[name] is not None:
            yield from (f"--{name}", str(form[name]))
    if form["apply"]:
        yield "--apply"


def _answer(command: list[str], environment: Mapping[str, str]) -> results.Result:
    """What the child has printed; what it tells on the way is the task's log.

    Whatever ends the wait, as the task's time-out, ends the child before it goes on.

    Raises:
        TidemarkError: the child's own.
        AirflowException: it ended without an answer, or badly after one.
    """
    with TemporaryDirectory() as folder:  # which has no .tidemark
        child = subprocess.Popen(  # noqa: S603 -- a text of the form is one argument
            [sys.executable, *PROGRAM, *command],
            cwd=folder,
            env=dict(environment),
            stdout=(Path(folder) / "answer").open("wb"),
            stderr=subprocess.PIPE,
            text=True,
        )
        with child, _ending_with_task(child):
            last = "it said nothing"
            for line in child.stderr or ():
                last = line.rstrip() or last
                log.info("%s", last)
        answer = (Path(folder) / "answer").read_text()
    report = _read(answer)
    if "error" in report:
        raise error_from_dict(report["error"])
    if child.returncode or not report:
        raise AirflowException(f"the replay ended with exit code {child.returncode}: {last}")
    return report


def _read(answer: str) -> results.Result:
    """Nothing, where the child ended before it had one, or in the midst of it."""
    try:
        found: results.Result = json.loads(answer)
    except ValueError:
        return {}
    return found


@contextmanager
def _ending_with_task(child: subprocess.Popen[str]) -> Iterator[None]:
    """Who stops waiting for the child ends it: it would publish behind the task's back."""
    _children.append(child)
    try:
        yield
    except BaseException:
        _end(child)
        raise
    finally:
        _children.remove(child)


def _end(child: subprocess.Popen[str]) -> None:
    """SIGKILL, first to the process that publishes: what it has not committed never stands."""
    with suppress(psutil.NoSuchProcess):
        tree = psutil.Process(child.pid).children(recursive=True)
        child.kill()
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()


RESET_TIMEOUT = timedelta(hours=6)
"""By hand: a rewind removes all rows since a checkpoint in one statement."""

REPLAY_TIMEOUT = timedelta(hours=6)
"""By hand: one Spark job, and one statement that moves its rows."""


APPROVAL_TIMEOUT = timedelta(days=1)
"""A reset that nobody has approved within it fails, and changes nothing."""


def reset_dag(
    path: str | Path,
    *,
    reset_timeout: timedelta = RESET_TIMEOUT,
    approval: bool = False,
    approvers: Sequence[str] = (),
    approval_timeout: timedelta = APPROVAL_TIMEOUT,
    **dag_kwargs: Any,
) -> DAG:
    """The DAG by which a person resets the region: manual, with a form, dry unless told otherwise.

    A rewind that is not done within reset_timeout removes nothing. With `approval` the run first
    shows what the reset would change, then waits until a person approves exactly that in Airflow:
    one of `approvers`, by their user ids; without these whoever may answer for the DAG. Nothing is
    changed if the region has moved since, or nobody answers within approval_timeout.
    dag_kwargs are Airflow's own, without a schedule. dag_id is `<region>_reset` by default; params
    stand beside those of the form.

    Raises:
        InvalidSettings: the file is wrong, a param has the name of one of the form, or approvers
            are named without approval; Airflow shows it as the DAG's import error.
    """
    if approvers and not approval:
        raise ApproversWithoutApproval(approvers=tuple(approvers))
    pipeline = Pipeline.load(path)
    usual = {"execution_timeout": reset_timeout}
    of_reset = usual | {
        "doc_json": described(pipeline, Role.reset),
        "outlets": outlets_of(pipeline),
    }
    with _manual_dag(pipeline, Role.reset, reset_params(), dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or reset_doc(pipeline)
        if approval:
            from tidemark.airflow._approval import wire_approved_reset

            wire_approved_reset(pipeline, str(path), approvers, approval_timeout, usual, of_reset)
        else:
            ResetByHand(task_id="reset", pipeline=path, **of_reset)
    return dag


def replay_dag(
    path: str | Path, *, replay_timeout: timedelta = REPLAY_TIMEOUT, **dag_kwargs: Any
) -> DAG:
    """The DAG by which a person replays dead letters: manual, dry unless told.

    A replay that is not done within replay_timeout is ended, and changes nothing.
    dag_kwargs are Airflow's own, without a schedule. dag_id is `<region>_replay` by default; params
    stand beside those of the form.

    Raises:
        InvalidSettings: the file is wrong, or a param has the name of one of the form; Airflow
            shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    with _manual_dag(pipeline, Role.replay, replay_params(), dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or replay_doc(pipeline)
        ReplayByHand(
            task_id="replay",
            pipeline=path,
            doc_json=described(pipeline, Role.replay),
            execution_timeout=replay_timeout,
        )
    return dag


def _manual_dag(pipeline: Pipeline, role: Role, form: Params, dag_kwargs: dict[str, Any]) -> DAG:
    """A DAG without a schedule, among the tools of the region."""
    dag_id = dag_kwargs.pop("dag_id", f"{pipeline.region}_{role}")
    dag_kwargs["tags"] = {TOOLS, *dag_kwargs.pop("tags", ())}
    return dag_of(dag_id, pipeline, form, schedule=None, **dag_kwargs)
