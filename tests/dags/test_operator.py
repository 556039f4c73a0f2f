"""DrainOperator on the real spark-submit: exit codes, secrets, and what killing it leaves."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dags.conftest import PASSWORD, PROJECT
from tests.support.processes import runs
from tests.support.waiting import until

from tidemark.settings.pipeline import Pipeline

PIPELINE = str(PROJECT / "dags" / "flights.yaml")

DRIVER = """
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
parent = pathlib.Path(f"/proc/{os.getppid()}/cmdline")
seen = {
    "argv": sys.argv[1:],
    "pids": [os.getpid(), os.getppid()],
    "spark_submit": parent.read_text().split(chr(0)) if parent.exists() else [],
    "environment": dict(os.environ),
}
(here / "seen.part").write_text(json.dumps(seen))
(here / "seen.part").rename(here / "seen")
print("driver: this is the reason", file=sys.stderr)
what = (here / "then").read_text()
if what == "wait":
    time.sleep(600)
if what == "jvm":
    os.kill(os.getppid(), signal.SIGKILL)
if what == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(what))
"""


class Driver:
    """A real driver script under a DrainOperator, in place of jobs/drain.py."""

    def __init__(self, folder: Path, pipeline: str = PIPELINE) -> None:
        from tidemark.airflow import DrainOperator

        self.folder = folder
        (folder / "driver.py").write_text(DRIVER)
        self.operator = DrainOperator(task_id="drain", pipeline=pipeline, member=2)
        self.operator.application = str(folder / "driver.py")

    def run(self, then: str) -> None:
        (self.folder / "then").write_text(then)
        ti = SimpleNamespace(
            dag_id="flights", run_id="by-hand-1", task_id="drain", map_index=1, try_number=2
        )
        self.operator.execute({"ti": ti})

    def seen(self) -> dict[str, Any]:
        until((self.folder / "seen").exists)
        answer: dict[str, Any] = json.loads((self.folder / "seen").read_text())
        return answer


@pytest.fixture
def driver(tmp_path: Path, connections: str) -> Driver:
    return Driver(tmp_path)


def test_sparks_log_is_in_the_folder_of_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.airflow.drain import LOGS, WORDS, _own_spark_log
    from tidemark.spark._log_file import log_file

    monkeypatch.delenv(WORDS, raising=False)
    monkeypatch.setenv(LOGS, str(tmp_path))
    assert log_file().parent == Path(_own_spark_log({})[WORDS]).parent == tmp_path
    chosen = str(tmp_path / "here" / "one.log")
    assert _own_spark_log({WORDS: chosen})[WORDS] == chosen


@pytest.mark.parametrize("given", [None, "-Xmx512m"])
def test_java_optimizes_late_in_a_driver_unless_its_options_are_set(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    from tidemark.airflow.drain import _own_spark_log
    from tidemark.spark.java_options import LATE, OPTIONS

    monkeypatch.setenv(OPTIONS, given or "")
    if given is None:
        monkeypatch.delenv(OPTIONS)
    assert _own_spark_log({})[OPTIONS].startswith(given or LATE)


def test_a_log_of_sparks_is_nobody_elses_and_goes_where_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a name that nobody can foresee, in a folder that nobody else can enter."""
    from tidemark.airflow.drain import LOGS, WORDS, _forget, _own_spark_log
    from tidemark.spark._log_file import log_file, own_folder

    for name in (LOGS, WORDS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own_folder.cache_clear()
    words = Path(_own_spark_log({})[WORDS])
    for folder in (words.parent, log_file().parent):
        assert (folder.stat().st_mode & 0o777, folder.parent) == (0o700, tmp_path)
    own_folder.cache_clear()
    _forget(str(words))
    assert not words.parent.exists()
    (tmp_path / "chosen.log").touch()
    _forget(str(tmp_path / "chosen.log"))
    assert (tmp_path / "chosen.log").exists()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("code", "name"),
    [("10", "FENCED"), pytest.param("2", "INVALID_SETTINGS", marks=pytest.mark.long)],
)
def test_what_no_retry_can_help_is_not_retried(driver: Driver, code: str, name: str) -> None:
    from tidemark.airflow.compat import AirflowFailException

    with pytest.raises(AirflowFailException, match=f"{name}: no retry(.|\n)*this is the reason"):
        driver.run(code)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("then", "code"),
    [pytest.param("1", 1, marks=pytest.mark.long), ("killed", 137)],
)
def test_a_driver_that_failed_or_was_killed_is_retried(
    driver: Driver, then: str, code: int
) -> None:
    from tidemark.airflow.compat import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match=f"Error code is: {code}") as failure:
        driver.run(then)
    assert not isinstance(failure.value, AirflowFailException)


@pytest.mark.spark
def test_a_killed_jvm_is_named_and_retried(driver: Driver) -> None:
    """B16: spark-submit is the JVM."""
    from tidemark.airflow.compat import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match=r"^JOB_FAILED: ") as failure:
        driver.run("jvm")
    assert not isinstance(failure.value, AirflowFailException)


@pytest.mark.spark
@pytest.mark.parametrize(
    "master",
    [
        pytest.param("local[1]", marks=pytest.mark.long),
        pytest.param("spark://127.0.0.1:1", marks=pytest.mark.long),
        "yarn",
        "k8s://https://127.0.0.1:1",
    ],
)
def test_secrets_are_in_the_environment_of_the_child_alone(
    driver: Driver,
    connections: str,
    capfd: pytest.CaptureFixture[str],
    caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
    master: str,
) -> None:
    """B19: whatever the master, in client mode."""
    lead_to(monkeypatch, host=master, password=PASSWORD)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(driver.folder))
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a-key-of-airflow's")
    caplog.set_level(0)
    driver.run("0")
    seen = driver.seen()
    for name in ("TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE", "SPARK_DEFAULT"):
        assert connections in seen["environment"][f"AIRFLOW_CONN_{name}"]
    assert not any(v for k, v in seen["environment"].items() if k.startswith("AIRFLOW__"))
    submitted = seen["spark_submit"]
    assert submitted[submitted.index("--master") + 1] == master
    assert connections not in json.dumps(seen["spark_submit"] + seen["argv"])
    assert connections not in caplog.text + "".join(capfd.readouterr())
    rendered = {name: getattr(driver.operator, name) for name in driver.operator.template_fields}
    assert connections not in json.dumps(rendered)
    assert driver.operator._environment == {}


@pytest.mark.spark
def test_the_secret_of_a_registry_goes_the_same_way(
    tmp_path: Path,
    connections: str,
    capfd: pytest.CaptureFixture[str],
    caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B12"""
    shape = {"conn_type": "http", "host": "http://r", "login": "ada", "password": "s3cret"}
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps(shape))
    caplog.set_level(0)
    text = Path(PIPELINE).read_text()
    assert "format: json" in text
    file = tmp_path / "avro.yaml"
    file.write_text(text.replace("format: json", "format: avro\n  registry: schemas"))
    driver = Driver(tmp_path, str(file))
    driver.run("0")
    seen = driver.seen()
    assert json.loads(seen["environment"]["AIRFLOW_CONN_SCHEMAS"])["password"] == "s3cret"
    rendered = {name: getattr(driver.operator, name) for name in driver.operator.template_fields}
    told = json.dumps([seen["spark_submit"], seen["argv"], rendered])
    assert "s3cret" not in told + caplog.text + "".join(capfd.readouterr())


@pytest.mark.spark
def test_a_driver_knows_its_run_finds_the_transform_and_leaves_the_task_green(
    driver: Driver,
) -> None:
    driver.run("0")
    seen = driver.seen()
    environment = seen["environment"]
    assert environment["TIDEMARK_RUN_ID"] == "flights/by-hand-1"
    assert environment["TIDEMARK_MEMBER_NAME"] == "drain[1] try 2"
    assert environment["TIDEMARK_MEMBER_SLOT"] == "2"
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert str(PROJECT) in environment["PYTHONPATH"].split(os.pathsep)
    assert seen["argv"] == [PIPELINE]


@pytest.mark.spark
def test_a_killed_task_fails_and_leaves_neither_jvm_nor_driver(driver: Driver) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            driver.run("wait")
        except Exception as error:
            failures.append(error)

    task = threading.Thread(target=run)
    task.start()
    pids = driver.seen()["pids"]
    assert all(map(runs, pids))
    driver.operator.on_kill()
    task.join(300)
    until(lambda: not any(map(runs, pids)))
    assert len(failures) == 1


def test_killing_a_task_that_never_started_its_driver_is_quiet(driver: Driver) -> None:
    driver.operator.on_kill()


@pytest.mark.parametrize("master", ["yarn", "k8s://https://here:6443", "spark://here:7077"])
def test_cluster_mode_is_refused_for_every_master(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    from tidemark.airflow.compat import AirflowFailException
    from tidemark.airflow.errors import DeployModeIsCluster

    lead_to(monkeypatch, host=master, extra={"deploy-mode": "cluster"})
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(AirflowFailException) as refusal:
        driver.run("0")
    assert isinstance(refusal.value.__cause__, DeployModeIsCluster)


def test_the_secret_of_a_cluster_is_refused_among_arguments(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.airflow.compat import AirflowFailException
    from tidemark.airflow.errors import SecretAmongArguments

    driver.operator.conf = {"spark.authenticate.secret": PASSWORD}
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(AirflowFailException) as refusal:
        driver.run("0")
    assert isinstance(refusal.value.__cause__, SecretAmongArguments)
    assert PASSWORD not in str(refusal.value)


def test_a_master_of_kubernetes_names_the_provider_that_it_needs(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.spark.hooks import spark_submit

    from tidemark.airflow.compat import AirflowFailException
    from tidemark.airflow.errors import SubmitNotPrepared

    lead_to(monkeypatch, host="k8s://https://here:6443")
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    with pytest.raises(AirflowFailException) as refusal:
        driver.run("0")
    assert isinstance(refusal.value.__cause__, SubmitNotPrepared)


def lead_to(monkeypatch: pytest.MonkeyPatch, **spark: Any) -> None:
    """The Spark connection; the provider of Kubernetes is taken for installed."""
    from airflow.providers.apache.spark.hooks import spark_submit

    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    shape = json.dumps({"conn_type": "spark"} | spark)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", shape)


@pytest.mark.parametrize("name", ["TIDEMARK_KAFKA", "TIDEMARK_WAREHOUSE", "SPARK_DEFAULT"])
def test_a_connection_that_nobody_defined_is_named(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from tests.support.airflows import AirflowNotFoundException

    monkeypatch.delenv(f"AIRFLOW_CONN_{name}")
    with pytest.raises(AirflowNotFoundException, match=name.lower()):
        driver.run("0")


def test_every_error_with_an_exit_code_of_its_own_is_final() -> None:
    from tidemark.airflow.results import names_by_exit_code

    names = names_by_exit_code()
    assert names[10] == "FENCED"
    assert names[11] == "TARGET_REFUSED"
    assert names[12] == "INCOMPLETE_READ"
    assert {1, 128 + signal.SIGKILL, 128 + signal.SIGTERM}.isdisjoint(names)


def test_a_pipeline_without_code_puts_no_project_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G129."""
    from tidemark.airflow.child import python

    monkeypatch.delenv("PYTHONPATH", raising=False)
    pipeline = Pipeline.load(PIPELINE)
    plain = pipeline.model_copy(update={"transform": None})
    project = str(pipeline.project)
    assert project in python(pipeline)["PYTHONPATH"].split(os.pathsep)
    assert project not in python(plain)["PYTHONPATH"].split(os.pathsep)
