"""What Airflow's endpoint clears of a run, as its page asks for it: it differs between versions."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.dags.conftest import token

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


@pytest.fixture
def kept(run: Any, session: Any) -> Any:
    """A run that other sessions see."""
    session.commit()
    return run


def cleared(client: "TestClient", run: Any, task_id: str, *, downstream: bool) -> set[str]:
    """By a dry run, which the page shows first."""
    asked = {
        "dry_run": True,
        "dag_run_id": run.run_id,
        "task_ids": [task_id],
        "include_downstream": downstream,
        "only_failed": False,
    }
    path = "/api/v2/dags/flights/clearTaskInstances"
    answer = client.post(path, json=asked, headers=token("flights"))
    assert answer.status_code == 200, answer.text
    return {one["task_id"] for one in answer.json()["task_instances"]}


TASKS = ("drain", "close", "reset", "verdict")


@pytest.mark.parametrize("task", TASKS)
def test_with_what_follows_a_clear_takes_open_and_end_too(
    client: "TestClient", kept: Any, task: str
) -> None:
    """G182: so the page asks, unless a person says otherwise."""
    assert {task, "open", "end"} <= cleared(client, kept, task, downstream=True)


@pytest.mark.parametrize("task", TASKS)
def test_by_itself_a_task_takes_them_along_since_airflow_3_3(
    client: "TestClient", kept: Any, task: str
) -> None:
    from tests.support.airflows import SETUPS_COME_ALONG

    expected = {task, "open", "end"} if SETUPS_COME_ALONG else {task}
    assert cleared(client, kept, task, downstream=False) == expected


@pytest.mark.parametrize("downstream", [False, True])
def test_these_tests_clear_as_the_endpoint_does(
    client: "TestClient", kept: Any, session: Any, downstream: bool
) -> None:
    """Those of wiring.py and clears.py, which have no api-server."""
    from airflow.models.serialized_dag import SerializedDagModel
    from tests.support.airflows import taken_by_clear

    dag = SerializedDagModel.get_dag("flights", session=session)
    for task in TASKS:
        ours = taken_by_clear(dag, kept.run_id, [task], downstream=downstream)
        assert ours == cleared(client, kept, task, downstream=downstream)
