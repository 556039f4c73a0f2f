"""The DAG files hold what their users and Airflow's scheduler rely on."""

import json
import shutil
import subprocess
import sys
from copy import deepcopy
from datetime import timedelta
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.dags.conftest import PROJECT

import tidemark

if TYPE_CHECKING:
    from tests.support.airflows import DagBag

EXAMPLES = {"flights": "public.flights", "orders_cdc": "public.order_history",
            "payments_avro": "public.payments"}  # fmt: skip
"""Worked examples, each with a table of its own."""
DAGS = tuple(
    sorted([*(f"{name}{end}" for name in EXAMPLES for end in ("", "_reset")), "flights_replay"])
)
BOUNDS = ("max_records", "max_bytes", "max_batches", "max_seconds")
HEAVY = ("pyspark", "confluent_kafka", "psycopg2", "pyarrow", "pandas", "alembic", "pgpq")

PARSE = """
import json, sys
import airflow.sdk
from airflow import plugins_manager as plugins
from tests.support.airflows import DagBag, plugin_errors

known = set(sys.modules)  # of Airflow itself

def parse(folder):
    bag = DagBag(dag_folder=folder, safe_mode=True)
    return [sorted(bag.dags), bag.import_errors, sorted(set(sys.modules) - known)]

folders = {folder: parse(folder) for folder in sys.argv[1:]}
plugins.ensure_plugins_loaded()
print(json.dumps([folders, sorted(sys.modules), plugin_errors()]))
"""
Folders = tuple[Path, Path, Path]
BROKEN_HEAD = f"""
from pathlib import Path
from airflow.providers.standard.operators.empty import EmptyOperator as Empty
from airflow.sdk import DAG
from tests.support.airflows import BaseTimetable
from tidemark.airflow import pipeline_dag, pipeline_task_group, reset_dag

HERE = Path(__file__).parent
FILE = Path({str(PROJECT / "dags" / "flights.yaml")!r})


class Mine(BaseTimetable):
    pass
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The folder of DAGs, one with a wrong pipeline file, one with a file that is no DAG."""
    wrong, noted = (tmp_path_factory.mktemp("parsed") / "dags" for _ in range(2))
    for copy in (wrong, noted):
        shutil.copytree(PROJECT / "dags", copy)
    settings = wrong / "flights.yaml"
    settings.write_text(settings.read_text().replace("max_records: 50000", "max_record: 50000"))
    (noted / "notes.md").write_text("airflow dag")
    return PROJECT / "dags", wrong, noted


@pytest.fixture(scope="module")
def parsed(folders: Folders, environment: dict[str, str]) -> list[Any]:
    """What one process of Airflow finds in these folders; then its modules and plugins' errors."""
    found = subprocess.run(
        [sys.executable, "-c", PARSE, *map(str, folders)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: list[Any] = json.loads(found.stdout.splitlines()[-1])
    return answer


def test_every_file_of_the_folder_imports(bag: "DagBag") -> None:
    """B11."""
    assert bag.import_errors == {}
    assert set(bag.dags) == set(DAGS)


def test_nothing_deprecated_is_used(bag: "DagBag") -> None:
    assert bag.captured_warnings == {}


def test_parsing_imports_no_client(parsed: list[Any], folders: Folders) -> None:
    """So it is quick: to import one of them takes longer than to parse a DAG."""
    dags, errors, modules = parsed[0][str(folders[0])]
    assert (dags, errors) == (list(DAGS), {})
    assert [name for name in HEAVY if name in modules] == []


ONE_FILE = """
import json, sys
import airflow.sdk
from tests.support.airflows import DagBag
known = set(sys.modules)
bag = DagBag(dag_folder=sys.argv[1], safe_mode=False)
found = {name for name in sys.modules if not name.startswith("encodings.")} - known
print(json.dumps([bag.import_errors, sorted(found)]))
"""


@pytest.mark.parametrize(
    ("file", "url", "most"),
    [
        ("flights", "", 240),
        pytest.param("flights_reset", "", 95, marks=pytest.mark.long),
        pytest.param("flights", "http://x", 900, marks=pytest.mark.long),
    ],
)
def test_a_file_imports_what_its_dag_needs(
    environment: dict[str, str], file: str, url: str, most: int
) -> None:
    """G192: each process that parses it pays; and OpenLineage's client is there where it is on."""
    found = subprocess.run(
        [sys.executable, "-c", ONE_FILE, str(PROJECT / "dags" / f"{file}.py")],
        env=environment | {"OPENLINEAGE_URL": url}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    errors, modules = json.loads(found.stdout.splitlines()[-1])
    assert errors == {}
    assert len(modules) <= most
    assert ("openlineage.client" in modules) == bool(url)
    is_run = "airflow.providers.apache.spark.operators.spark_submit" in modules
    assert is_run == (file == "flights")


def test_no_docstring_of_a_key_is_looked_for_where_a_file_is_parsed() -> None:
    """G192: pydantic would read the source of each section, in each process, among all modules."""
    from tidemark.settings.pipeline import Pipeline

    assert not Pipeline.model_config.get("use_attribute_docstrings")


@pytest.mark.parametrize("dag_id", DAGS)
def test_runs_never_overlap_nor_catch_up_nor_wait_for_a_pool(bag: "DagBag", dag_id: str) -> None:
    dag = bag.dags[dag_id]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert {task.pool for task in dag.tasks} == {"default_pool"}


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_task_that_works_ends_and_is_retried(bag: "DagBag", dag_id: str) -> None:
    for task in bag.dags[dag_id].tasks:
        if task.task_id != "verdict":
            hours = 6 if dag_id.endswith(("_reset", "_replay")) else 1
            assert task.execution_timeout.total_seconds() <= hours * 3600
            assert task.retries == 2
            assert float(task.retry_exponential_backoff) >= 1  # each wait is longer


@pytest.mark.parametrize("dag_id", DAGS)
def test_no_dag_of_a_pipeline_allows_backfills(bag: "DagBag", dag_id: str) -> None:
    """G184: and each other kind of run that this Airflow knows; 3.1 asks no DAG."""
    from airflow.utils.types import DagRunType
    from tests.support.airflows import IS_3_1

    if IS_3_1:
        assert not hasattr(bag.dags[dag_id], "allowed_run_types")
        return
    refused = set(DagRunType) - set(bag.dags[dag_id].allowed_run_types)
    assert refused == {DagRunType.BACKFILL_JOB}


def test_a_large_rewind_can_be_given_more_time() -> None:
    from tidemark.airflow import reset_dag

    dag = reset_dag(PROJECT / "dags" / "flights.yaml", reset_timeout=timedelta(hours=12))
    assert dag.get_task("reset").execution_timeout == timedelta(hours=12)


def test_close_tells_who_schedules_on_the_target(bag: "DagBag") -> None:
    asset, alias = bag.dags["flights"].get_task("close").outlets
    assert (asset.name, asset.uri) == (
        "tidemark_warehouse/public.flights",
        "tidemark://tidemark_warehouse/public/flights",
    )
    assert alias.name == "tidemark_warehouse/public.flights/address"


def test_each_of_several_targets_is_an_asset(bag: "DagBag", tmp_path: Path) -> None:
    """B8: another DAG may be scheduled on one of them."""
    from tests.support.two_tables import SETTINGS

    from tidemark.airflow import target_asset
    from tidemark.airflow.assets import target_assets
    from tidemark.airflow.errors import AssetOfNoTarget
    from tidemark.airflow.forms import pipeline_doc
    from tidemark.settings.pipeline import Pipeline

    file = tmp_path / "r.yaml"
    said = {"region": "r", "kafka": {"connection": "k", "topics": ["t"]}, **SETTINGS}
    file.write_text(json.dumps(said))
    pipeline = Pipeline.load(file)
    assets = target_assets(pipeline)
    assert [one.name for one in assets] == [f"tidemark_warehouse/public.{name}"
                                            for name in ("newest", "numbers")]  # fmt: skip
    assert target_asset(file, "numbers") == assets[1]
    with pytest.raises(AssetOfNoTarget) as unnamed:
        target_asset(file)
    assert unnamed.value.targets == ("newest", "numbers")
    assert "`public.newest` (upsert), `public.numbers` (append)" in pipeline_doc(pipeline)


def test_a_run_is_unbounded_unless_the_form_says_so(bag: "DagBag") -> None:
    params = bag.dags["flights"].params
    assert {name: params[name] for name in BOUNDS} == dict.fromkeys(BOUNDS)
    assert all(params.get_param(name).schema["section"] for name in params)


def test_overrides_are_off_and_say_what_they_accept(bag: "DagBag") -> None:
    from tidemark.airflow.forms import OVERRIDES

    params = bag.dags["flights"].params
    assert set(params) == {*BOUNDS, *OVERRIDES}
    for name in OVERRIDES:
        param = params.get_param(name)
        assert (bool(param.value), param.schema["section"]) == (False, "Overrides")
        assert param.description.startswith("Accepts that ")
        assert "a run that is cleared does not get it again" in param.description


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", 10**13])
def test_the_form_refuses_a_bound_that_is_none(bag: "DagBag", name: str, value: object) -> None:
    from tests.support.airflows import ParamValidationError

    with pytest.raises(ParamValidationError):
        bag.dags["flights"].params.get_param(name).resolve(value)


def test_a_reset_is_dry_unless_the_form_says_so(bag: "DagBag") -> None:
    dag = bag.dags["flights_reset"]
    assert dag.params.dump() == {
        "to": "last",
        "apply": False,
        "why": None,
        "accept_data_loss": False,
        "accept_changes": False,
        "accept_resend": False,
    }
    assert dag.schedule is None


def test_a_name_that_a_field_had_before_is_refused() -> None:
    """A script may trigger a reset by it: else why it was done would be lost."""
    from tidemark.airflow import tasks
    from tidemark.airflow.compat import AirflowFailException
    from tidemark.settings.errors import NameChanged

    params = {"to": "last", "apply": True, "why": None, "reason": "a drill"}
    with pytest.raises(AirflowFailException) as refused:
        tasks.reset_by_hand(str(PROJECT / "dags" / "flights.yaml"), {"params": params})
    assert isinstance(refused.value.__cause__, NameChanged)


PLACES = ["last", "initial", "0", "1234567", "2026-01-31", "2026-01-31T12:00:00Z",
          "2026-01-31 12:00:00+02:00", "2026-01-31T12:00:00.250"]  # fmt: skip


@pytest.mark.parametrize("text", PLACES)
def test_the_form_takes_every_place_that_a_reset_knows(bag: "DagBag", text: str) -> None:
    from tidemark.protocol.reset import destination

    deepcopy(bag.dags["flights_reset"].params.get_param("to")).resolve(text)  # which keeps it
    destination(text)


@pytest.mark.parametrize("text", ["", "LAST", "latest", "-1", "1.5", "5 minutes ago", "last; x"])
def test_the_form_refuses_what_names_no_place(bag: "DagBag", text: str) -> None:
    from tests.support.airflows import ParamValidationError

    from tidemark.errors import InvalidSettings
    from tidemark.protocol.reset import destination

    with pytest.raises(ParamValidationError):
        bag.dags["flights_reset"].params.get_param("to").resolve(text)
    with pytest.raises(InvalidSettings):
        destination(text)


def test_airflow_reads_no_helper_as_a_plugin(parsed: list[Any]) -> None:
    """Airflow runs every file below plugins/ unless told not to: that would load it twice."""
    _, modules, errors = parsed
    assert {"offsets", "errors", "pipeline"}.isdisjoint(modules)
    assert errors == {}


def test_a_wrong_pipeline_file_is_an_import_error_with_file_line_and_key(
    parsed: list[Any], folders: Folders
) -> None:
    lines = (folders[1] / "flights.yaml").read_text().splitlines()
    line = lines.index("  max_record: 50000") + 1
    dags, errors, _ = parsed[0][str(folders[1])]
    of_the_file = {name for name in DAGS if name.startswith("flights")}
    assert dags == sorted(set(DAGS) - of_the_file)
    for error in errors.values():
        assert f"flights.yaml:{line}: batch.max_record: unknown key" in error
    assert len(errors) == len(of_the_file)


def test_only_dag_files_are_parsed(parsed: list[Any], folders: Folders) -> None:
    """As Airflow lists the folder, with safe mode on: a pipeline file is never read as code."""
    dags, errors, _ = parsed[0][str(folders[2])]
    assert (dags, errors) == (list(DAGS), {})


def test_the_group_puts_the_same_tasks_into_a_dag_that_is_there() -> None:
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    from tidemark.airflow import pipeline_task_group

    with DAG("mine", schedule=None, default_args={"owner": "me"}) as dag:
        before, after = EmptyOperator(task_id="before"), EmptyOperator(task_id="after")
        before >> pipeline_task_group(PROJECT / "dags" / "flights.yaml") >> after
    names = {name.removeprefix("flights.") for name in dag.task_dict} - {"before", "after"}
    assert names == {"open", "drain", "close", "reset", "verdict", "end"}
    assert before.downstream_task_ids == {"flights.open"}
    assert after.upstream_task_ids == {"flights.verdict"}
    assert dag.get_task("flights.drain").owner == "me"


def test_tasks_run_where_and_as_often_as_their_author_says() -> None:
    from tidemark.airflow import pipeline_dag

    pod = {"pod_override": None}
    dag = pipeline_dag(
        PROJECT / "dags" / "flights.yaml",
        drain_kwargs={"pool": "spark", "queue": "java", "retries": 5, "executor_config": pod},
        step_kwargs={"pool": "light", "executor": "LocalExecutor"},
    )
    drain = dag.get_task("drain")
    found = drain.pool, drain.queue, drain.retries, drain.executor_config, drain.executor
    assert found == ("spark", "java", 5, pod, None)
    for name in ("open", "close", "reset", "verdict"):
        step = dag.get_task(name)
        assert (step.pool, step.executor, step.queue) == ("light", "LocalExecutor", "default")


@pytest.mark.parametrize("argument", ["drain_kwargs", "step_kwargs"])
@pytest.mark.parametrize("factory", ["pipeline_dag", "pipeline_task_group"])
def test_what_a_task_does_is_not_for_its_author_to_set(factory: str, argument: str) -> None:
    """G135: with any of these a run could be green that is not done, or wait for ever."""
    from airflow.sdk import DAG

    import tidemark.airflow
    from tidemark.airflow.errors import TaskKwargsRefused

    breaking = (
        "application", "depends_on_past", "do_xcom_push", "env_vars", "execution_timeout",
        "on_success_callback", "outlets", "python_callable", "task_id", "trigger_rule",
    )  # fmt: skip
    make = getattr(tidemark.airflow, factory)
    for name in breaking:
        given = {argument: {"pool": "light", name: "x"}}
        with DAG("mine", schedule=None), pytest.raises(TaskKwargsRefused) as refused:
            make(PROJECT / "dags" / "flights.yaml", **given)
        assert (refused.value.argument, refused.value.names) == (argument, (name,))


def test_airflow_knows_all_that_a_tasks_author_may_set() -> None:
    from airflow.sdk import BaseOperator

    from tidemark.airflow.step import PER_TASK

    assert {*PER_TASK} <= {*signature(BaseOperator.__init__).parameters}


def test_airflow_lists_the_provider() -> None:
    """B24: as Admin, Providers does; without a warning of its schema."""
    from airflow.providers_manager import ProvidersManager

    found = ProvidersManager().providers["airflow-provider-tidemark"]
    assert (found.version, found.data["name"]) == (tidemark.__version__, "Tidemark")
    names = {one["integration-name"] for one in found.data["integrations"]}
    for kind in ("operators", "triggers"):
        for group in found.data[kind]:
            assert group["integration-name"] in names
            assert all(map(find_spec, group["python-modules"]))


def test_connections_are_of_types_that_airflow_knows_by_others() -> None:
    """B24: a type that two providers name has the form of whichever Airflow finds first."""
    from airflow.providers_manager import ProvidersManager

    known = ProvidersManager().hooks
    brought = {name: known[name].package_name for name in ("kafka", "postgres", "spark")}
    assert brought == {
        "kafka": "apache-airflow-providers-apache-kafka",
        "postgres": "apache-airflow-providers-postgres",
        "spark": "apache-airflow-providers-apache-spark",
    }
    assert "connection-types" not in ProvidersManager().providers["airflow-provider-tidemark"].data


@pytest.mark.parametrize("factory", ["pipeline_dag", "reset_dag", "replay_dag"])
def test_a_dag_may_have_another_name_and_params_of_its_own(factory: str) -> None:
    import tidemark.airflow

    make = getattr(tidemark.airflow, factory)
    usual = make(PROJECT / "dags" / "flights.yaml")
    dag = make(PROJECT / "dags" / "flights.yaml", dag_id="mine", params={"ticket": "none"})
    assert dag.dag_id == "mine"
    assert dag.params.dump() == usual.params.dump() | {"ticket": "none"}


@pytest.mark.parametrize(
    ("factory", "name"),
    [("pipeline_dag", "accept_data_loss"), ("reset_dag", "apply"), ("replay_dag", "limit")],
)
def test_a_form_keeps_its_own_defaults(factory: str, name: str) -> None:
    import tidemark.airflow
    from tidemark.airflow.errors import ParamsOfForm

    make = getattr(tidemark.airflow, factory)
    with pytest.raises(ParamsOfForm) as refused:
        make(PROJECT / "dags" / "flights.yaml", params={name: True})
    assert refused.value.names == (name,)


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_form_can_be_sent_as_it_opens(bag: "DagBag", dag_id: str) -> None:
    """Airflow's page takes an empty text for a missing one and would not let it be sent."""
    params = bag.dags[dag_id].params
    assert [name for name, value in params.dump().items() if value == ""] == []


def test_users_look_for_faults_of_a_folder_by_one_call(folders: Folders, tmp_path: Path) -> None:
    """B11: none in the worked examples; each of another folder is named."""
    from tidemark.testing import dag_faults

    good, wrong, _ = folders
    assert dag_faults(good) == []
    assert any("max_record" in fault for fault in dag_faults(wrong))
    assert dag_faults(tmp_path) == [f"{tmp_path}: there is no DAG"]
    assert any("parsing takes" in fault for fault in dag_faults(good, parse_seconds=0))


@pytest.mark.parametrize(
    ("params", "schedule", "says"),
    [
        ('{"n": Param(type="integer")}', "@daily", "required params without default values"),
        ('{"n": Param("x", type="integer")}', None, "one: param n: 'x' is not of type 'integer'"),
        ('{"n": Param(type="integer")}', None, ""),
        ('{"n": 1}', "@daily", ""),
    ],
)
def test_a_form_that_does_not_allow_its_defaults_is_a_fault(
    tmp_path: Path, params: str, schedule: str | None, says: str
) -> None:
    """B11"""
    from tidemark.testing import dag_faults

    text = f"dag = DAG('one', schedule={schedule!r}, params={params})"
    (tmp_path / "one.py").write_text(f"from airflow.sdk import DAG, Param\n{text}\n")
    found = dag_faults(tmp_path)
    assert (found == []) == (says == "")
    assert says in "".join(found)


GROUPS = """
with DAG("host", schedule=None{host}):
    {groups}
"""
BROKEN = {
    "syntax": ("dag = DAG(", "was never closed"),
    "import": ("import no_such_module", "No module named 'no_such_module'"),
    "pipeline file": ("pipeline_dag(HERE / 'none.yaml')", "none.yaml"),
    "timetable": ("dag = DAG('mine', schedule=Mine())", "mine: Airflow can't serialize it: "),
    "cron": ("dag = DAG('mine', schedule='61 * * * *')", "61 * * * *"),
    "task twice": (
        "with DAG('mine'):\n    Empty(task_id='a'); Empty(task_id='a')",
        "Task id 'a' has already been added",
    ),
    "circle": (
        "with DAG('mine'):\n    a = Empty(task_id='a'); b = Empty(task_id='b'); a >> b >> a",
        "Cycle detected",
    ),
    "params": ("dag = DAG('mine', params={'n': object()})", "must be json-serializable"),
    "runs at once": (
        GROUPS.format(host="", groups="pipeline_task_group(FILE)"),
        "host: max_active_runs is 16, so its runs may wait for each other",
    ),
    "backfill": (
        GROUPS.format(host=", max_active_runs=1", groups="pipeline_task_group(FILE)").replace(
            "schedule=None", "schedule='@daily'"
        ),
        "host: a backfill may be started, whose runs are all refused: set allowed_run_types",
    ),
    "region twice in a DAG": (
        GROUPS.format(
            host=", max_active_runs=1",
            groups="pipeline_task_group(FILE) >> pipeline_task_group(FILE, group_id='again')",
        ),
        "region flights: run stands in host (2 times): a region has one DAG",
    ),
    "region in two DAGs": (
        "dags = [pipeline_dag(FILE), pipeline_dag(FILE, dag_id='copy')]\na, b = dags",
        "region flights: run stands in copy and in flights: a region has one DAG",
    ),
    "two resets": (
        "a, b = reset_dag(FILE), reset_dag(FILE, dag_id='copy')",
        "region flights: reset stands in copy and in flights_reset: a region has one DAG",
    ),
}
"""Broken DAG files, each with a part of what is said of it."""


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_dag_is_a_fault_of_its_folder(fault: str, tmp_path: Path) -> None:
    """B11: also what Airflow's dag processor meets after the import."""
    from tests.support.airflows import IS_3_1

    from tidemark.testing import dag_faults

    text, says = BROKEN[fault]
    (tmp_path / "broken.py").write_text(f"{BROKEN_HEAD}\n{text}\n")
    if fault == "backfill" and IS_3_1:  # where no DAG can refuse one
        assert dag_faults(tmp_path) == []
        return
    [found] = dag_faults(tmp_path)
    assert says in found
    is_ours = found.startswith(("region", "host: "))
    assert bool(import_errors(tmp_path / "broken.py")) is not is_ours


def import_errors(file: Path) -> dict[str, str]:
    """What Airflow's own dag processor makes of a file."""
    from airflow.dag_processing.processor import DagFileParseRequest, _parse_file
    from structlog import get_logger

    asked = DagFileParseRequest(
        file=str(file), bundle_path=file.parent, bundle_name="b", callback_requests=[]
    )
    result = _parse_file(asked, get_logger())
    assert result is not None
    found: dict[str, str] = result.import_errors
    return found


@pytest.mark.parametrize(
    ("more", "minutes"),
    [
        ({}, 10),
        ({"output": {"topic": "sent", "max_seconds": 900}}, 24),
        ({"no_progress_seconds": 3600}, 64),
    ],
)
def test_a_step_may_take_as_long_as_the_file_lets_it_wait_and_send(
    more: dict[str, Any], minutes: int, tmp_path: Path
) -> None:
    """G98: a step that must send a batch is not ended before its transaction."""
    from tidemark.airflow import pipeline_dag

    file = yaml.safe_load((PROJECT / "dags" / "flights.yaml").read_text())
    path = tmp_path / "flights.yaml"
    path.write_text(yaml.safe_dump(file | {"transform": None} | more))
    dag = pipeline_dag(path)
    limits = {dag.get_task(name).execution_timeout for name in ("open", "close", "reset")}
    assert limits == {timedelta(minutes=minutes)}
