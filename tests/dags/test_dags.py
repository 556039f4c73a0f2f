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
    from airflow.dag_processing.dagbag import DagBag

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
from airflow.dag_processing.dagbag import DagBag

def parse(folder):
    bag = DagBag(dag_folder=folder, safe_mode=True)
    return [sorted(bag.dags), bag.import_errors, sorted(sys.modules)]

folders = {folder: parse(folder) for folder in sys.argv[1:]}
plugins.ensure_plugins_loaded()
print(json.dumps([folders, sorted(sys.modules), plugins.get_import_errors()]))
"""
Folders = tuple[Path, Path, Path]


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


@pytest.mark.parametrize("dag_id", DAGS)
def test_people_find_whose_it_is_and_what_it_does(bag: "DagBag", dag_id: str) -> None:
    dag = bag.dags[dag_id]
    example = dag_id.removesuffix("_reset").removesuffix("_replay")
    assert {"tidemark", example} <= set(dag.tags)
    assert ("tidemark-tools" in dag.tags) == (dag_id != example)
    assert EXAMPLES[example] in (dag.doc_md or "")
    assert {task.owner for task in dag.tasks} == {"data-platform"} == set(dag.owner_links)


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


def test_a_large_rewind_can_be_given_more_time() -> None:
    from tidemark.airflow import reset_dag

    dag = reset_dag(PROJECT / "dags" / "flights.yaml", reset_timeout=timedelta(hours=12))
    assert dag.get_task("reset").execution_timeout == timedelta(hours=12)


def test_the_tasks_stand_as_the_design_says(bag: "DagBag") -> None:
    dag = bag.dags["flights"]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        "open": {"drain"},
        "drain": {"close"},
        "close": {"reset", "verdict"},
        "reset": {"verdict"},
        "verdict": set(),
    }
    assert {task.task_id: task.trigger_rule.value for task in dag.tasks} == {
        "open": "all_success",
        "drain": "all_success",
        "close": "all_done",
        "reset": "one_failed",
        "verdict": "none_failed",
    }
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["open"]


def test_there_is_a_drain_for_each_member(bag: "DagBag") -> None:
    assert bag.dags["flights"].get_task("drain").expand_input.value == {"member": [1, 2]}


def test_close_tells_who_schedules_on_the_target(bag: "DagBag") -> None:
    (asset,) = bag.dags["flights"].get_task("close").outlets
    assert (asset.name, asset.uri) == (
        "tidemark_warehouse/public.flights",
        "tidemark://tidemark_warehouse/public/flights",
    )


def test_each_of_several_targets_is_an_asset(bag: "DagBag") -> None:
    """B8: another DAG may be scheduled on one of them."""
    from tests.support.two_tables import SETTINGS

    from tidemark.airflow.errors import AssetOfNoTarget
    from tidemark.airflow.forms import pipeline_doc
    from tidemark.airflow.tasks import target_asset, target_assets
    from tidemark.settings.pipeline import Pipeline

    file = {"region": "r", "kafka": {"connection": "k", "topics": ["t"]}, **SETTINGS}
    pipeline = Pipeline.model_validate(file)
    assets = target_assets(pipeline)
    assert [one.name for one in assets] == [f"tidemark_warehouse/public.{name}"
                                            for name in ("newest", "numbers")]  # fmt: skip
    assert target_asset(pipeline, "numbers") == assets[1]
    with pytest.raises(AssetOfNoTarget) as unnamed:
        target_asset(pipeline)
    assert unnamed.value.targets == ("newest", "numbers")
    assert "`public.newest` (upsert), `public.numbers` (append)" in pipeline_doc(pipeline)


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_scheduler_reads_back_what_was_written(bag: "DagBag", dag_id: str) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    written = DagSerialization.to_dict(bag.dags[dag_id])
    read = DagSerialization.from_dict(json.loads(json.dumps(written)))
    assert set(read.task_dict) == set(bag.dags[dag_id].task_dict)
    assert "tidemark" in json.dumps(written)
    assert "AIRFLOW_CONN" not in json.dumps(written)


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_form_is_valid_as_it_comes_up(bag: "DagBag", dag_id: str) -> None:
    bag.dags[dag_id].params.validate()


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


def test_the_names_of_the_form_are_those_of_the_code() -> None:
    from dataclasses import fields

    from tidemark.airflow.forms import BOUNDS as OF_THE_FORM
    from tidemark.model.plan import Bounds

    limits = {field.name for field in fields(Bounds)} - {"in_flight"}  # which is no limit of a run
    assert set(OF_THE_FORM) == limits == set(BOUNDS)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", 10**13])
def test_the_form_refuses_a_bound_that_is_none(bag: "DagBag", name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        bag.dags["flights"].params.get_param(name).resolve(value)


def test_the_form_the_option_and_the_file_say_alike_what_is_weighed(bag: "DagBag") -> None:
    from typing import get_type_hints

    from tidemark.cli.run import run
    from tidemark.settings.sections import BatchSettings

    in_file = BatchSettings.model_fields["max_bytes"].description or ""
    in_form = bag.dags["flights"].params.get_param("max_bytes").description
    option = get_type_hints(run, include_extras=True)["max_bytes"].__metadata__[0].help
    for text in (in_file, in_form, option):
        assert text.startswith("Bytes of values in one batch")


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


def test_a_name_that_a_field_had_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may trigger a reset by it: else why it was done would be lost."""
    from airflow.sdk.exceptions import AirflowFailException

    from tidemark.airflow import tasks
    from tidemark.settings.errors import NameChanged

    params = {"to": "last", "apply": True, "why": None, "reason": "a drill"}
    monkeypatch.setattr(tasks, "get_current_context", lambda: {"params": params})
    with pytest.raises(AirflowFailException) as refused:
        tasks.reset_by_hand(str(PROJECT / "dags" / "flights.yaml"))
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
    from airflow.sdk.exceptions import ParamValidationError

    from tidemark.errors import InvalidSettings
    from tidemark.protocol.reset import destination

    with pytest.raises(ParamValidationError):
        bag.dags["flights_reset"].params.get_param("to").resolve(text)
    with pytest.raises(InvalidSettings):
        destination(text)


def test_the_page_says_that_fewer_slots_than_members_will_do(bag: "DagBag") -> None:
    assert "With fewer slots than members" in (bag.dags["flights"].doc_md or "")


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
    assert names == {"open", "drain", "close", "reset", "verdict"}
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
    [("pipeline_dag", "accept_data_loss"), ("reset_dag", "apply"), ("replay_dag", "batch")],
)
def test_a_form_keeps_its_own_defaults(factory: str, name: str) -> None:
    import tidemark.airflow
    from tidemark.airflow.errors import ParamsOfForm

    make = getattr(tidemark.airflow, factory)
    with pytest.raises(ParamsOfForm) as refused:
        make(PROJECT / "dags" / "flights.yaml", params={name: True})
    assert refused.value.names == (name,)


def test_no_page_names_a_dag_that_may_not_be_there() -> None:
    from tidemark.airflow import pipeline_dag, replay_dag, reset_dag

    for make in (pipeline_dag, reset_dag, replay_dag):
        dag = make(PROJECT / "dags" / "flights.yaml", dag_id="mine")
        assert "DAG `" not in (dag.doc_md or "")


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_form_can_be_sent_as_it_opens(bag: "DagBag", dag_id: str) -> None:
    """Airflow's page takes an empty text for a missing one and would not let it be sent."""
    params = bag.dags[dag_id].params
    assert [name for name, value in params.dump().items() if value == ""] == []


def test_a_table_of_many_partitions_is_cut_and_says_so() -> None:
    from tidemark.airflow.results import MOST_ROWS, table

    lines = list(table(("partition", "offset"), [(f"t[{n}]", n) for n in range(MOST_ROWS + 20)]))
    assert len(lines) == MOST_ROWS + 2
    assert lines[-1] == "  and 20 more: XCom has them all"
    assert list(table(("partition", "offset"), [])) == []


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
