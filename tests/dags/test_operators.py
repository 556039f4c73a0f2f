"""A run that is wired by hand: what Airflow's import errors say, and what the tasks do."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.dags.conftest import PROJECT

FLIGHTS = PROJECT / "dags" / "flights.yaml"
HEAD = f"""
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup
from tidemark.airflow import (
    CloseOperator, DrainOperator, OpenOperator, ResetOperator, VerdictOperator, pipeline_task_group
)

FILE = {str(FLIGHTS)!r}
OTHER = {str(PROJECT / "dags" / "orders_cdc.yaml")!r}

def tasks(*names, **values):
    kinds = dict(
        open=OpenOperator, drain=DrainOperator, close=CloseOperator, reset=ResetOperator,
        verdict=VerdictOperator,
    )
    return [kinds[name](task_id=name, pipeline=FILE, **values) for name in names]

dag = DAG("mine", schedule=None, max_active_runs=1)
with dag:
"""
WORKS = {
    "as the docs say": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed >> verdict.as_bound_of(opened)
""",
    "mapped, with a check and a reset": """
    opened, closed, reset, verdict = tasks("open", "close", "reset", "verdict")
    drained = DrainOperator.partial(task_id="drain", pipeline=FILE).expand(member=[1, 2])
    check = EmptyOperator(task_id="check")
    opened >> drained >> closed >> [check, reset] >> verdict.as_bound_of(opened)
""",
    "two members by name, in a group": """
    with TaskGroup("mine"):
        opened, closed, verdict = tasks("open", "close", "verdict")
        members = [DrainOperator(task_id=f"m{n}", pipeline=FILE, member=n) for n in (1, 2)]
        opened >> members >> closed >> verdict.as_bound_of(opened)
""",
    "two files side by side": """
    for n, file in enumerate((FILE, OTHER)):
        opened = OpenOperator(task_id=f"open{n}", pipeline=file)
        drained = DrainOperator(task_id=f"drain{n}", pipeline=file)
        closed = CloseOperator(task_id=f"close{n}", pipeline=file)
        verdict = VerdictOperator(task_id=f"verdict{n}", pipeline=file)
        opened >> drained >> closed >> verdict.as_bound_of(opened)
""",
    "two groups of one file": """
    pipeline_task_group(FILE, group_id="a") >> pipeline_task_group(FILE, group_id="b")
""",
}
FAULTS = {
    "no OpenOperator": """
    drained, closed, verdict = tasks("drain", "close", "verdict")
    drained >> closed >> verdict
""",
    "no CloseOperator": """
    opened, drained, verdict = tasks("open", "drain", "verdict")
    opened >> drained >> verdict.as_bound_of(opened)
""",
    "no DrainOperator": """
    opened, closed, verdict = tasks("open", "close", "verdict")
    opened >> EmptyOperator(task_id="own") >> closed >> verdict.as_bound_of(opened)
""",
    "no VerdictOperator": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed >> verdict
""",
    "no VerdictOperator that bounds the open": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    own = EmptyOperator(task_id="own").as_setup()
    opened >> drained >> closed >> verdict.as_teardown(setups=own)
""",
    "no VerdictOperator that bounds": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed >> verdict
    opened >> verdict
""",
    "more than one OpenOperator": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    again = OpenOperator(task_id="again", pipeline=FILE)
    opened >> again >> drained >> closed >> verdict.as_bound_of(opened)
""",
    "drain does not come after open": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    drained >> closed >> verdict.as_bound_of(opened)
""",
    "close does not come after drain": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> [drained, EmptyOperator(task_id="own")] >> verdict.as_bound_of(opened)
    dag.get_task("own") >> closed >> verdict
""",
    "verdict does not come after close": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed
    verdict.as_bound_of(opened)
""",
    "reset does not come right after close": """
    opened, drained, closed, reset, verdict = tasks("open", "drain", "close", "reset", "verdict")
    opened >> drained >> closed >> verdict.as_bound_of(opened)
    drained >> reset >> verdict
""",
    "the trigger rule of close is": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed >> verdict.as_bound_of(opened)
    closed.trigger_rule = "all_success"
""",
    "the trigger rule of verdict is": """
    opened, drained, closed, verdict = tasks("open", "drain", "close", "verdict")
    opened >> drained >> closed >> verdict.as_bound_of(opened)
    verdict.trigger_rule = "none_failed"
""",
    "it has no CloseOperator. Wire them": """
    with TaskGroup("mine"):
        [opened] = tasks("open")
    drained, closed, verdict = tasks("drain", "close", "verdict")
    opened >> drained >> closed >> verdict.as_bound_of(opened)
""",
    "leave trigger_rule out": """
    tasks("close", trigger_rule="all_success")
""",
}
PARSE = """
import json, sys
from tests.support.airflows import DagBag
bag = DagBag(dag_folder=sys.argv[1], safe_mode=False)
print(json.dumps([sorted(bag.dags), bag.import_errors]))
"""
Parsed = tuple[list[str], dict[str, str]]


@pytest.fixture(scope="module")
def parsed(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Parsed]:
    """Each wiring with what Airflow finds in its file: DAGs and import errors."""
    folder = tmp_path_factory.mktemp("wired")
    bodies = WORKS | FAULTS
    for number, body in enumerate(bodies.values()):
        head = HEAD.replace('"mine", schedule', f'"mine_{number}", schedule')
        (folder / f"wired_{number}.py").write_text(head + body)
    found = subprocess.run(
        [sys.executable, "-c", PARSE, str(folder)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    dags, errors = json.loads(found.stdout.splitlines()[-1])
    texts = {Path(name).stem: text for name, text in errors.items()}
    return {
        name: (
            [f"mine_{number}"] if f"mine_{number}" in dags else [],
            {one: texts[one] for one in (f"wired_{number}",) if one in texts},
        )
        for number, name in enumerate(bodies)
    }


@pytest.mark.parametrize("name", WORKS)
def test_a_run_that_is_wired_by_hand_parses(parsed: dict[str, Parsed], name: str) -> None:
    """B11, B24."""
    dags, errors = parsed[name]
    assert errors == {}
    assert len(dags) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_wiring_is_an_import_error(parsed: dict[str, Parsed], fault: str) -> None:
    """G216: an epoch that nobody drains, closes or judges is refused before it is taken."""
    dags, errors = parsed[fault]
    assert dags == []
    [text] = errors.values()
    assert "WiredWrong: " in text or "TriggerRuleTaken: " in text
    assert fault in text


def test_the_groups_result_is_what_close_returns() -> None:
    from airflow.sdk import DAG

    from tidemark.airflow import pipeline_task_group

    with DAG("host", schedule=None, max_active_runs=1):
        group = pipeline_task_group(FLIGHTS)
    assert (group.result.operator.task_id, group.result.key) == ("flights.close", "return_value")


def test_an_operator_takes_what_airflows_do_and_is_tried_again_by_itself() -> None:
    from datetime import timedelta

    from airflow.sdk import DAG, Asset

    from tidemark.airflow import CloseOperator, OpenOperator

    mine = Asset("mine")
    with DAG("host", schedule=None, default_args={"retries": 7}):
        opened = OpenOperator(
            task_id="open", pipeline=FLIGHTS, pool="light", execution_timeout=timedelta(1)
        )
        closed = CloseOperator(task_id="close", pipeline=FLIGHTS, outlets=[mine])
    assert (opened.pool, opened.retries, opened.execution_timeout) == ("light", 7, timedelta(1))
    own = "tidemark_warehouse/public.flights"
    assert [one.name for one in closed.outlets] == [own, f"{own}/address", "mine"]
    assert OpenOperator(task_id="alone", pipeline=FLIGHTS).retries == 2


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_drain_by_hand_has_what_that_of_the_factories_has(*, is_mapped: bool) -> None:
    from airflow.sdk import DAG

    from tidemark.airflow import pipeline_dag

    def drain(task_id: str = "drain", **kwargs: Any) -> Any:
        return (drained if is_mapped else one_drain)(task_id=task_id, pipeline=FLIGHTS, **kwargs)

    names = ("retries", "retry_delay", "max_retry_delay", "retry_exponential_backoff")
    names += ("execution_timeout", "doc_md", *(("map_index_template",) if is_mapped else ()))
    made, alone = pipeline_dag(FLIGHTS).get_task("drain"), drain()
    assert [getattr(alone, name) for name in names] == [getattr(made, name) for name in names]
    assert bool(alone.map_index_template) is is_mapped
    with DAG("host", schedule=None, default_args={"retries": 7}):
        asked = drain(), drain("own", retries=0), drain("args", default_args={"retries": 1})
    assert [one.retries for one in asked] == [7, 0, 1]


def drained(**kwargs: Any) -> Any:
    """Mapped members."""
    from tidemark.airflow import DrainOperator

    return DrainOperator.partial(**kwargs).expand(member=[1, 2])


def one_drain(**kwargs: Any) -> Any:
    """One member."""
    from tidemark.airflow import DrainOperator

    return DrainOperator(**kwargs)


def test_a_retry_of_a_drain_starts_a_driver_of_its_own() -> None:
    """The ledger knows what the first one did. Airflow below 3.3 would warn of the argument."""
    from tidemark.airflow import DrainOperator

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert DrainOperator(task_id="drain", pipeline=FLIGHTS).durable is False
