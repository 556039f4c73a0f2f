"""jobs/drain.py as a process: how it ends, what it says, and that it stops when told to."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from jobs import drain as job

from tidemark.runs.errors import DriverEnvironmentUnfit
from tidemark.settings.errors import ConnectionNotKnown, PipelineFaults

PROJECT = Path(__file__).resolve().parents[2]
JOB = PROJECT / "jobs" / "drain.py"
PIPELINE = str(PROJECT / "dags" / "flights.yaml")

CONNECTIONS = ("TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE")

STAND_IN = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
sys.path.insert(0, {project!r})
from jobs import drain as job
def work(path):
    try:
        print("working", flush=True)
        while True:  # a signal just before a long sleep does not end it
            time.sleep(0.1)
    finally:
        print("left the group", flush=True)
job.drain = work
job._start()
sys.exit(job.main(["flights.yaml"]))
"""
"""The real entry point around a member's loop that only waits."""


def environment(**variables: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "TIDEMARK"))}
    return inherited | variables


def ended(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(JOB), *arguments],
        env=environment(**variables),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def working(**variables: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", STAND_IN.format(project=str(PROJECT))],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "working\n":
        process.kill()
        pytest.fail(f"the driver ended before it worked: {process.communicate()[1]}")
    return process


def test_an_expected_error_is_one_line_without_a_trace() -> None:
    job = ended(PIPELINE)
    assert job.returncode == 2
    assert job.stderr.splitlines()[-1].startswith("INVALID_SETTINGS: TIDEMARK_RUN_ID is ''")
    assert "Traceback" not in job.stderr


def test_a_wrong_pipeline_file_is_named_with_line_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(Path(PIPELINE).read_text().replace("region: flights", "region: Flights!"))
    monkeypatch.setenv("TIDEMARK_RUN_ID", "flights/1")
    with pytest.raises(PipelineFaults) as refused:
        job.drain(str(wrong))
    [fault] = refused.value.faults
    assert (refused.value.file, fault["line"], fault["key"]) == (wrong, 2, "region")


def test_a_missing_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_RUN_ID", "flights/1")
    for conn_id in CONNECTIONS:
        monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id}", raising=False)
    with pytest.raises(ConnectionNotKnown) as missing:
        job.drain(PIPELINE)
    assert missing.value.conn_id.upper() in CONNECTIONS


def test_an_unreachable_postgres_may_be_retried_and_no_password_is_told() -> None:
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    postgres = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": 1,
        "login": "tidemark",
        "password": "correct horse",
        "schema": "warehouse",
    }
    job = ended(
        PIPELINE,
        TIDEMARK_RUN_ID="flights/1",
        AIRFLOW_CONN_TIDEMARK_KAFKA=json.dumps(kafka),
        AIRFLOW_CONN_TIDEMARK_WAREHOUSE=json.dumps(postgres),
    )
    assert (job.returncode, "UNREACHABLE" in job.stderr) == (1, True), job.stderr
    assert "correct horse" not in job.stdout + job.stderr


@dataclass
class Nothing:
    """What a member did that had nothing to do."""

    rows: int = 0


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The arguments of a member's loop, which returns at once."""
    found: dict[str, object] = {}

    def drain_run(*_: object, **arguments: object) -> Nothing:
        found.update(arguments)
        return Nothing()

    monkeypatch.setattr("tidemark.runs.member.drain_run", drain_run)
    monkeypatch.setenv("TIDEMARK_RUN_ID", "flights/1")
    monkeypatch.delenv("TIDEMARK_MEMBER_SLOT", raising=False)
    for conn_id in CONNECTIONS:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", '{"conn_type": "generic"}')
    return found


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("slot", ["0", "-1", "first", ""])
def test_a_slot_that_is_none_is_refused(slot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_MEMBER_SLOT", slot)
    with pytest.raises(DriverEnvironmentUnfit) as refused:
        job.drain(PIPELINE)
    assert (refused.value.variable, refused.value.value) == ("TIDEMARK_MEMBER_SLOT", slot)


@pytest.mark.parametrize(("slot", "number"), [("3", 3), (None, 1)])
def test_the_slot_is_the_members_static_name(
    given: dict[str, object], monkeypatch: pytest.MonkeyPatch, slot: str | None, number: int
) -> None:
    if slot:
        monkeypatch.setenv("TIDEMARK_MEMBER_SLOT", slot)
    job.drain(PIPELINE)
    assert given["slot"] == number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_work_and_still_leaves_the_group(number: signal.Signals) -> None:
    with working() as job:
        job.send_signal(number)
        said, told = job.communicate()
    assert said == "left the group\n"
    assert job.returncode == 128 + number
    assert told.splitlines()[-1].split(":")[0] in ("TERMINATED", "INTERRUPTED")
    assert "Traceback" not in told


def test_a_driver_whose_task_was_killed_stops_by_itself() -> None:
    supervisor = subprocess.Popen(["sleep", "600"])
    try:
        with working(TIDEMARK_SUPERVISOR=str(supervisor.pid)) as job:
            assert job.poll() is None
            supervisor.kill()
            supervisor.wait()
            said, _ = job.communicate()
    finally:
        supervisor.kill()
        supervisor.wait()
    assert said == "left the group\n"
    assert job.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("package", ["plain", "with __init__"])
def test_a_projects_jobs_are_found_before_those_of_the_checkout(
    tmp_path: Path, package: str
) -> None:
    """The driver starts from a checkout, the transform stands in the user's project."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "flights.py").write_text("IS_MINE = True")
    if package == "with __init__":
        (tmp_path / "jobs" / "__init__.py").touch()
    asked = (
        f"import runpy; runpy.run_path({str(JOB)!r})['_find_the_library']();"
        "import jobs.flights, subprocess, sys; print(jobs.flights.IS_MINE, flush=True);"
        "subprocess.run([sys.executable, '-c', 'import jobs.flights; print(jobs.flights.IS_MINE)'])"
    )
    (elsewhere := tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=elsewhere,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True"]
