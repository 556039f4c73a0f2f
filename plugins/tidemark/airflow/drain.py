"""DrainOperator: one member of a run, started through spark-submit.

The module of Airflow's SparkSubmitOperator imports OpenLineage's client, and with it much of
Airflow's server, in each process that parses a DAG file: 0.2 s of CPU. Where nobody listens to
OpenLineage, it is imported as if that provider were not there, for which it has a way.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from airflow.sdk import Connection, Context

from tidemark.airflow._lineage import Lineaged, is_wanted, seen
from tidemark.airflow._wiring import RunTask
from tidemark.airflow.child import PACKAGE, emptied, python, secrets
from tidemark.airflow.compat import NOT_RESUMED, AirflowException, AirflowFailException
from tidemark.airflow.errors import DeployModeIsCluster, SecretAmongArguments, SubmitNotPrepared
from tidemark.airflow.results import as_airflow_failure, keep_code, names_by_exit_code
from tidemark.airflow.step import DRAIN_TIMEOUT, RETRIES, Params, RegionLink
from tidemark.settings.described import ledger_run_id
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.cluster import SECRET
from tidemark.spark.errors import JvmEnded
from tidemark.spark.java_options import LATE, OPTIONS, with_archive
from tidemark.tracing.traced import for_child

_CLIENTS = "airflow.providers.openlineage.utils.spark"
_ASKS_FOR_IT = "airflow.providers.common.compat.openlineage.utils.spark"


@contextmanager
def _withheld(name: str) -> Iterator[None]:
    """The module is not to be found inside."""
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


if not is_wanted() and _CLIENTS not in sys.modules:
    with _withheld(_CLIENTS):
        import_module(_ASKS_FOR_IT)

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # noqa: E402
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator  # noqa: E402

LOG4J = PACKAGE / "spark" / "log4j2.properties"
WORDS, LOGS = "TIDEMARK_SPARK_LOG", "TIDEMARK_SPARK_LOGS"
"""The variables that name the file for Spark's own log, and its folder: see spark/_log_file.py."""
_PRIVATE = "tidemark-spark-"
"""How a folder of one task alone begins."""

GRACE_SECONDS = 3.0
"""For the driver to cancel its job and leave the group: Airflow's supervisor sends SIGKILL to
the task's process group five seconds after SIGTERM."""

USUAL = RETRIES | {"execution_timeout": DRAIN_TIMEOUT}
"""Of a drain whose DAG says nothing else."""

AS_IN_LEDGER = "{{ task.task_id }}[{{ ti.map_index }}]"
"""How Airflow's pages name a mapped drain."""

QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}


class DrainOperator(Lineaged, RunTask, SparkSubmitOperator):  # type: ignore[misc]
    """Drain the region of a pipeline file as one member of the DAG run's epoch.

    Connections are resolved when the task executes and go to the child's environment alone:
    never to argv, templates, XCom or the log. A retry joins the same epoch. So does a driver
    that outlives its task: it is one more member until the ledger fences it, never a danger.

    It takes whatever Airflow's SparkSubmitOperator takes. It is tried as often as `RETRIES` says,
    for an hour each time, unless the task or its DAG says otherwise.

    Raises:
        InvalidSettings: the file is wrong.
    """

    step = "drain"
    operator_extra_links = (RegionLink(),)

    def __init__(
        self,
        *,
        pipeline: str | Path,
        member: int = 1,
        conf: dict[Any, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        settings = Pipeline.load(pipeline)
        usual = USUAL | {"doc_md": self.__doc__}
        kwargs["default_args"] = usual | (kwargs.get("default_args") or {})
        super().__init__(
            application=str(entry_point()),
            application_args=[str(pipeline)],
            conf=QUIET | (conf or {}),
            conn_id=settings.spark.connection,
            name=f"tidemark-{settings.region}",
            **NOT_RESUMED,
            **kwargs,
        )
        self.pipeline = str(pipeline)
        self.member = member
        self._environment: dict[str, str] = {}
        self._words = ""

    @classmethod
    def partial(cls, *, default_args: Params | None = None, **kwargs: Any) -> Any:
        """The same for mapped members, for which Airflow asks the class for no default."""
        made = super().partial(default_args=default_args, **kwargs)
        above = [one.default_args for one in (made.kwargs["dag"], made.kwargs["task_group"]) if one]
        said = {*kwargs}.union(default_args or (), *above)
        usual = USUAL | {"doc_md": cls.__doc__, "map_index_template": AS_IN_LEDGER}
        made.kwargs.update((name, one) for name, one in usual.items() if name not in said)
        return made

    def execute(self, context: Context) -> None:
        """Run the driver to its end.

        Raises:
            AirflowFailException: the exit code says that no retry can help.
            AirflowException: any other failure; the retry joins the epoch and goes on.
        """
        pipeline = Pipeline.load(self.pipeline)
        with as_airflow_failure():
            self._environment = secrets(pipeline) | self._identity(context) | python(pipeline)
        try:
            super().execute(context)
        except AirflowException as error:
            name = names_by_exit_code().get(self._exit_code)
            if name:
                keep_code(name)
                raise AirflowFailException(f"{name}: no retry can help\n{error}") from error
            if self._exit_code < 0:  # a signal ended spark-submit itself, which is Spark's JVM
                ended = JvmEnded(log=self._words)
                keep_code(ended.code)
                raise AirflowException(f"{ended.code}: {ended}") from error
            raise
        finally:
            self._environment = {}
        _forget(self._words)
        self.lineage = seen(self.pipeline, context, counts=False)  # close counts

    def on_kill(self) -> None:
        """Leave no process of the driver: SIGTERM to all of them, then SIGKILL to the rest."""
        submit = self._hook._submit_sp if self._hook else None
        if submit is None or submit.poll() is not None:
            return
        tree = psutil.Process(submit.pid).children(recursive=True)
        for number in (signal.SIGTERM, signal.SIGKILL):
            _send(number, [submit, *tree])
            psutil.wait_procs(tree, timeout=GRACE_SECONDS)
            # Not by psutil: it would take the exit code, and the hook would read success.
            with suppress(subprocess.TimeoutExpired):
                submit.wait(GRACE_SECONDS / 2)

    @property
    def _exit_code(self) -> int:
        submit = self._hook._submit_sp if self._hook else None
        return submit.returncode if submit else 0

    def _get_hook(self) -> SparkSubmitHook:
        Connection.get(self._conn_id)  # the hook itself would take a missing one to mean YARN
        with as_airflow_failure():
            hook = _hook_of(super()._get_hook)
            _refuse_to_publish(hook)
        environment = {**emptied(), **(hook._env_vars or {}), **self._environment}
        if hook._connection["master"].startswith("local"):
            # The host's own name may not resolve, or to an address that is not there.
            environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment |= _own_spark_log(environment)
        # For the child alone: from its _env_vars the hook makes arguments on YARN and Kubernetes.
        hook._env, hook._env_vars = environment, None
        hook._connection["deploy_mode"] = "client"  # whatever spark-defaults.conf says
        self._words = environment[WORDS]
        self.log.info("Spark's log is %s", self._words)
        return hook

    def _identity(self, context: Context) -> dict[str, str]:
        """The run, and which member of it this is; its slot is its static name in the group."""
        ti = context["ti"]
        return {
            "TIDEMARK_RUN_ID": ledger_run_id(ti.dag_id, ti.run_id, ti.task_id),
            "TIDEMARK_MEMBER_NAME": f"{ti.task_id}[{max(ti.map_index, 0)}] try {ti.try_number}",
            "TIDEMARK_MEMBER_SLOT": str(self.member),
            "TIDEMARK_SUPERVISOR": str(os.getpid()),
            **for_child(),
        }


def _own_spark_log(given: dict[str, str]) -> dict[str, str]:
    """Spark's JVM logs into a file of its own, so that the task's log is the run's alone."""
    known = os.environ | given
    words = known.get(WORDS) or f"{known.get(LOGS) or _private()}/tidemark-spark-{uuid4()}.log"
    options = [
        with_archive(known.get(OPTIONS, LATE)),
        f"-Dlog4j2.configurationFile={LOG4J.as_uri()}",
        f"-Dtidemark.spark.log={words}",
    ]
    return {WORDS: words, OPTIONS: " ".join(filter(None, options))}


def _private() -> str:
    """A folder that no other account can reach."""
    return tempfile.mkdtemp(prefix=_PRIVATE)


def _forget(words: str) -> None:
    """Delete Spark's log of a task that succeeded, unless a person has chosen its folder."""
    folder = Path(words).parent
    if folder.name.startswith(_PRIVATE):
        shutil.rmtree(folder, ignore_errors=True)


def entry_point() -> Path:
    """The spark-submit entry point: inside the installed package, or beside it in a checkout."""
    installed = PACKAGE / "jobs" / "drain.py"
    return installed if installed.exists() else PACKAGE.parents[1] / "jobs" / "drain.py"


def _hook_of(make: Callable[[], SparkSubmitHook]) -> SparkSubmitHook:
    """The hook; without the provider of Kubernetes it knows no `k8s` master."""
    try:
        return make()
    except (NameError, RuntimeError) as error:
        raise SubmitNotPrepared(cause=str(error)) from error


def _refuse_to_publish(hook: SparkSubmitHook) -> None:
    """No secret leaves this machine in a place where others can list it."""
    if "cluster" in (hook._connection["deploy_mode"], hook._conf.get("spark.submit.deployMode")):
        raise DeployModeIsCluster(conn_id=hook._conn_id)
    if SECRET in hook._conf:
        raise SecretAmongArguments(conn_id=hook._conn_id, key=SECRET)


def _send(number: int, processes: list[psutil.Process | subprocess.Popen[str]]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
