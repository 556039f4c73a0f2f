"""The DAG that replays by hand: its form, its child, and what the child may see."""

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.dags.conftest import PASSWORD, PROJECT
from tests.support.processes import runs
from tests.support.waiting import until

from tidemark.errors import Fenced, InvalidSettings

if TYPE_CHECKING:
    from tests.support.airflows import DagBag

PIPELINE = str(PROJECT / "dags" / "flights.yaml")
EMPTY = dict.fromkeys(("why", "reasons", "since", "until", "partition", "limit"))
COMES_UP = EMPTY | {"apply": False}
ALWAYS = ["replay", PIPELINE, "--output", "json", "--why"]


def test_a_replay_is_dry_unless_the_form_says_so(bag: "DagBag") -> None:
    """B14."""
    dag = bag.dags["flights_replay"]
    assert dag.params.dump() == COMES_UP
    assert dag.schedule is None
    assert {task.task_id for task in dag.tasks} == {"replay"}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({}, ["by hand", "--dead-letters"]),
        ({"apply": True, "why": "a drill"}, ["a drill", "--dead-letters", "--apply"]),
        ({"batch": None}, ["by hand", "--dead-letters"]),
        (
            {"reasons": "OUT_OF_RANGE, WRONG_TYPE", "since": "2026-01-31", "limit": 9},
            ["by hand", "--dead-letters", "--reason", "OUT_OF_RANGE", "--reason", "WRONG_TYPE",
             "--since", "2026-01-31", "--limit", "9"],
        ),
        (
            {"partition": "flights[3]", "until": "2026-02-01 10:00:00"},
            ["by hand", "--dead-letters", "--until", "2026-02-01 10:00:00", "--partition",
             "flights[3]"],
        ),
        ({"why": "--apply"}, ["--apply", "--dead-letters"]),
    ],
)  # fmt: skip
def test_the_form_says_what_is_replayed(form: dict[str, Any], told: list[str]) -> None:
    """B14: a text of the form is one argument, whatever it looks like."""
    from tidemark.airflow.manual import arguments

    assert [*arguments(PIPELINE, COMES_UP | form)] == ALWAYS + told


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", 0), ("since", "yesterday"), ("until", "--apply"), ("limit", "1")],
)
def test_the_form_refuses_what_is_none(bag: "DagBag", name: str, value: object) -> None:
    from tests.support.airflows import ParamValidationError

    with pytest.raises(ParamValidationError):
        bag.dags["flights_replay"].params.get_param(name).resolve(value)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """Runs the task with a form; what it logged is in `caplog`."""
    from tidemark.airflow.manual import ReplayByHand

    task = ReplayByHand(task_id="replay", pipeline=PIPELINE)

    def run(**form: Any) -> Any:
        run = SimpleNamespace(triggering_user_name="alice")
        with caplog.at_level(logging.INFO, logger="tidemark.airflow.manual"):
            return task.execute({"params": COMES_UP | form, "dag_run": run})

    return run


def test_a_child_that_reaches_nothing_fails_with_its_reason_and_no_secret(
    told: Any, connections: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B11: the real command line, without any server; a retry may help."""
    from tidemark.airflow.compat import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match=r"^UNREACHABLE: ") as failed:
        told()
    assert not isinstance(failed.value, AirflowFailException)
    assert PASSWORD not in caplog.text + str(failed.value)


def test_a_child_has_nothing_of_airflows_configuration(
    told: Any, connections: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tidemark.airflow import manual

    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a key")
    seen = tmp_path / "seen"
    program = (
        "import json, os, pathlib;"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps(dict(os.environ)));"
        f"print({json.dumps(OF_DEAD_LETTERS)!r})"
    )
    monkeypatch.setattr(manual, "PROGRAM", ("-c", program))
    told()
    given = json.loads(seen.read_text())
    assert [one for one in given if one.startswith("AIRFLOW__")] == []
    assert given["LOGNAME"] == "alice"


def test_the_batch_of_an_older_form_fails_at_once(told: Any, connections: str) -> None:
    """B14: no dead letters are replayed in its place."""
    from tidemark.airflow.compat import AirflowFailException

    with pytest.raises(AirflowFailException) as failed:
        told(batch=3, apply=True)
    cause = failed.value.__cause__
    assert isinstance(cause, InvalidSettings)
    assert (cause.case, cause.fields()) == (
        "BatchesNotReplayed",
        {"region": "flights", "seq": 3},
    )


SAYS_MORE = """
import json, sys
from tidemark.errors import error_as_dict
from tidemark.protocol.errors import BatchDied
print(json.dumps({"error": error_as_dict(BatchDied(region="flights", seq=3))}))
sys.stderr.write("WARN ShutdownHookManager: a folder stays")
sys.exit(10)
"""
"""A child that fails, and whose JVM has the last word."""


ENDS_BADLY = "import os; print('{\"applied\": true}', flush=True); os._exit(139)"


def test_a_failed_replay_says_why_whoever_writes_last(
    told: Any, connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child's answer says it; its log is a log."""
    from tidemark.airflow import manual
    from tidemark.airflow.compat import AirflowFailException

    monkeypatch.setattr(manual, "PROGRAM", ("-c", SAYS_MORE))
    with pytest.raises(AirflowFailException) as failed:
        told()
    cause = failed.value.__cause__
    assert isinstance(cause, Fenced)
    assert (cause.case, cause.fields()) == ("BatchDied", {"region": "flights", "seq": 3})


@pytest.mark.parametrize(("program", "own"), [("1/0", "ZeroDivision"), (ENDS_BADLY, "139")])
def test_a_replay_without_an_error_of_its_own_may_be_tried_again(
    program: str, own: str, told: Any, connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it had answered; its last line or its exit code is all that is known."""
    from tidemark.airflow import manual
    from tidemark.airflow.compat import AirflowException, AirflowFailException

    monkeypatch.setattr(manual, "PROGRAM", ("-c", program))
    with pytest.raises(AirflowException, match=own) as failed:
        told()
    assert not isinstance(failed.value, AirflowFailException)


OF_DEAD_LETTERS: dict[str, Any] = {
    "region": "flights", "applied": False, "epoch": 3, "head_seq": 8, "chosen": 9, "replayed": 7,
    "kept": {"INVALID_JSON": 1, "OUT_OF_RANGE": 1}, "not_kept_raw": 0, "rows": None,
    "refused": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            OF_DEAD_LETTERS,
            "Dry run: would replay 7 dead letters; 2 would fail again. Nothing was changed.",
        ),
        (
            OF_DEAD_LETTERS | {"refused": "SECRET"},
            "Dry run: would replay 7 dead letters; 2 would fail again. Nothing was changed."
            " It would be refused now: its log says why.",
        ),
        (OF_DEAD_LETTERS | {"chosen": 0}, "No dead letter to replay. Nothing was changed."),
        (
            OF_DEAD_LETTERS | {"applied": True, "rows": 7},
            "Replayed 7 dead letters as 7 rows; 2 failed again.",
        ),
    ],
)
def test_a_replay_is_told_in_a_sentence(report: dict[str, Any], sentence: str) -> None:
    """B11: of numbers alone, for whoever may read the DAG sees it on the region's page."""
    from tidemark.admin.replay_report import ReplayReport
    from tidemark.airflow.results import of_replay

    assert of_replay(ReplayReport(**report)) == {"summary": sentence, **report}


def test_what_was_replayed_is_told_and_kept(
    told: Any, connections: str, caplog: pytest.LogCaptureFixture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """B11: the child is told its secrets by its environment, and who replays."""
    from tidemark.airflow import manual

    report = OF_DEAD_LETTERS | {"applied": True, "rows": 20_000}
    seen = tmp_path / "seen"
    program = (
        "import json, os, pathlib, sys;"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps([sys.argv, dict(os.environ)]));"
        f"print({json.dumps(report)!r}); print('on its way', file=sys.stderr)"
    )
    monkeypatch.setattr(manual, "PROGRAM", ("-c", program))
    kept = told(apply=True)
    assert kept == {"summary": kept["summary"], **report}
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == ["on its way", "DONE: replay of dead letters, region flights"]
    assert "  published   batch 8, epoch 3: 20,000 rows" in lines
    argv, environment = json.loads(seen.read_text())
    assert PASSWORD not in " ".join(argv)
    assert PASSWORD in environment["AIRFLOW_CONN_TIDEMARK_WAREHOUSE"]
    assert environment["LOGNAME"] == "alice"


WORKS_ON = (
    "import os, pathlib, subprocess, sys, time;"
    "own = subprocess.Popen(['sleep', '30'], stdin=subprocess.DEVNULL);"
    "print('pid', own.pid, file=sys.stderr, flush=True); time.sleep(20);"
    "pathlib.Path(os.environ['PUBLISHED']).write_text('published'); print('{}')"
)
"""A child with a process of its own, as Spark's; it publishes late."""


@pytest.mark.parametrize("how", ["time-out", "SIGTERM"])
def test_what_ends_the_task_ends_the_replay(
    how: str, told: Any, connections: str, bag: "DagBag", tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """G84: nothing is published behind the task, and the task waits for nobody."""
    from airflow.sdk.execution_time.timeout import timeout
    from tests.support.airflows import AirflowTaskTimeout

    from tidemark.airflow import manual
    from tidemark.airflow.compat import AirflowException

    pids = []

    def when_it_works(_: str, line: str) -> None:
        pids.append(int(line.split()[1]))
        if how == "time-out":
            signal.raise_signal(signal.SIGALRM)
        else:  # as Airflow's own handler
            bag.dags["flights_replay"].get_task("replay").on_kill()

    monkeypatch.setattr(manual, "PROGRAM", ("-c", WORKS_ON))
    monkeypatch.setattr(manual.log, "info", when_it_works)
    published = tmp_path / "published"
    monkeypatch.setenv("PUBLISHED", str(published))
    ended = AirflowTaskTimeout if how == "time-out" else AirflowException
    with pytest.raises(ended), timeout(600):
        told()
    assert not published.exists()
    [of_its_own] = pids
    until(lambda: not runs(of_its_own))


def test_nobody_takes_a_dry_replay_for_one() -> None:
    from tidemark.admin.replay_report import ReplayReport
    from tidemark.airflow.results import replay_log

    dry = [*replay_log(ReplayReport(**OF_DEAD_LETTERS))]
    assert dry[0] == "DRY RUN: replay of dead letters, region flights. NOTHING WAS CHANGED"
    assert dry[-1] == "To do it, trigger the DAG again with Apply switched on"
    refused = [*replay_log(ReplayReport(**OF_DEAD_LETTERS | {"refused": "not at rest"}))]
    assert refused[-1] == "  refused     not at rest"


def test_a_replay_that_finds_nothing_is_not_told_as_a_dry_run() -> None:
    """It may have been ordered."""
    from tidemark.admin.replay_report import ReplayReport
    from tidemark.airflow.results import replay_log
    from tidemark.cli.replay import _lines

    report = ReplayReport(**OF_DEAD_LETTERS | {"chosen": 0, "replayed": 0, "kept": {}})
    lines = ["  chosen      0 dead letters", "  decodable   0"]
    log, printed = [*replay_log(report)], [*_lines(report)]
    assert log == ["NOTHING TO REPLAY: replay of dead letters, region flights", *lines]
    assert printed == ["region flights: replay of dead letters, nothing to replay", *lines]


def test_the_command_line_takes_what_the_form_can_say() -> None:
    """B14: each option exists."""
    from tidemark.airflow.manual import OPTIONS, PROGRAM

    command = [sys.executable, *PROGRAM, "replay", "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in (*OPTIONS, "dead-letters", "reason", "why", "apply", "output"):
        assert f"--{name}" in helped
