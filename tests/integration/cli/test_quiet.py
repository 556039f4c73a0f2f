"""What a real process with Spark says: a green run holds nothing that is not its own."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.commands import settle_in, tidemark, write_pipeline
from tests.support.processes import family, kill, resume, runs, stopped
from tests.support.produce import good, produce
from tests.support.waiting import until
from tests.support.world import World

from tidemark import failpoints

pytestmark = pytest.mark.spark

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from tidemark.cli.main import app
app(sys.argv[1:])
"""
TRANSFORM = """
def transform(rows):
    rows.take(1)  # leaves a worker whose pipe is closed early: it prints a traceback
    return rows.where("kafka_offset % 5 > 0")
"""
SECONDS = 300


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a transform that drops every fifth record, in the current folder."""
    settle_in(world, tmp_path, monkeypatch)
    (tmp_path / "drops.py").write_text(TRANSFORM)
    write_pipeline(world, transform="drops:transform", no_progress_seconds=SECONDS)
    produce(world.kafka, world.topic, [good("x" * 100)] * 5000)
    monkeypatch.setenv("TIDEMARK_SPARK_LOG", str(tmp_path / "spark.log"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    return tmp_path


def started(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.long
def test_a_green_run_says_nothing_of_sparks_and_spark_says_it_elsewhere(
    world: World, project: Path
) -> None:
    with started("run", "dags/pipeline.yaml", "-o", "json") as run:
        said, told = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, told
    assert json.loads(said)["rows"] == 4000
    own = [line for line in told.splitlines() if " INFO tidemark" not in line]
    own = [line for line in own if " INFO batch " not in line]
    assert own == []
    words = (project / "spark.log").read_text()
    assert "WARN" in words
    assert "Traceback" in words


@pytest.mark.long
def test_a_signal_while_spark_starts_ends_with_a_code_and_leaves_no_process(project: Path) -> None:
    with started("preview", "dags/pipeline.yaml") as preview:
        log = project / "spark.log"
        until(lambda: (log.exists() and log.stat().st_size > 0) or preview.poll() is not None)
        preview.send_signal(signal.SIGTERM)
        _, told = preview.communicate(timeout=SECONDS)
    assert preview.returncode == 143, told
    assert told.splitlines()[-1].startswith("TERMINATED: ")
    assert "Traceback" not in told
    until(lambda: not processes_of(log))


SLOW = """
import pathlib, time
import pyarrow as pa

def transform(records: pa.RecordBatch) -> pa.RecordBatch:
    if records.num_rows:
        pathlib.Path({at_work!r}).touch()
        while True:  # a signal just before a long sleep does not end it
            time.sleep(0.1)
    return records
"""


@pytest.mark.long
def test_ctrl_c_in_a_job_is_one_line_and_no_failed_run(world: World, project: Path) -> None:
    """B20: the terminal tells the workers too; a run that a person ends has not failed."""
    at_work = project / "at_work"
    (project / "slow.py").write_text(SLOW.format(at_work=str(at_work)))
    write_pipeline(world, transform="slow:transform")
    with started("run", "dags/pipeline.yaml", start_new_session=True) as run:
        until(lambda: at_work.exists() or run.poll() is not None)
        os.killpg(run.pid, signal.SIGINT)
        _, told = run.communicate(timeout=SECONDS)
    assert run.returncode == 130, told
    assert told.splitlines()[-1].startswith("INTERRUPTED: what was published stays"), told
    assert "Traceback" not in told
    found = world.sql("SELECT r.consecutive_resets, s.why, s.state FROM tidemark.regions r"
                      " JOIN tidemark.resets s USING (region)")  # fmt: skip
    assert [(count, why.split()[1:], state) for count, why, state in found] == [
        (0, ["was", "cancelled"], "finished")
    ]
    until(lambda: not processes_of(project / "spark.log"))


def processes_of(log: Path) -> list[psutil.Process]:
    """Whatever was started with this file for Spark's words."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TIDEMARK_SPARK_LOG") == str(log):
                found.append(process)
    return found


@pytest.mark.long
@pytest.mark.parametrize("at", ["read.middle", "publish.before"])
def test_a_killed_jvm_is_named_and_the_next_run_goes_on(
    world: World, project: Path, at: str
) -> None:
    """B16: it says neither that the transform is wrong nor what Python met in its place.

    In the middle of a job, and between two.
    """
    write_pipeline(world, transform="drops:transform", batch={"max_records": 2000})
    variables = os.environ | {failpoints.VARIABLE: f"{at}=stop@1"}
    run = started("run", "dags/pipeline.yaml", "-o", "json", env=variables)
    until(lambda: stopped(family(run.pid)) or run.poll() is not None, SECONDS)
    stand = stopped(family(run.pid))
    [jvm] = [one for one in psutil.Process(run.pid).children() if one.name() == "java"]
    jvm.kill()
    until(lambda: not runs(jvm.pid))  # its parent may stand still
    for one in stand:
        kill(one) if at == "read.middle" else resume(one)
    out, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 1
    error = json.loads(out)["error"]
    assert (error["code"], error["case"]) == ("JOB_FAILED", "JvmEnded")
    assert not {"Traceback", "EOFError", "Py4J"} & set(re.findall(r"\w+", said))
    tidemark("run", "dags/pipeline.yaml")  # without Spark, and so without the transform
    assert sum(world.ledger_offsets().values()) == 5000
