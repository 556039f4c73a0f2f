"""Runs a reset DAG that needs an approval, once for each answer; prints what became of it, as JSON.

approvals.py FILE ANSWER...
"""

import json
import os
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg2
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select
from tests.support.airflows import answer_approvals, kept_bag
from tests.support.waiting import until

DAG_ID = "asks"
WAITING = ("awaiting_input", "queued")
"""A task that waits for an answer; until Airflow 3.3 its trigger looks for it, in `dag.test`."""
ENDED = ("skipped", "failed", "success")
DAG = f"""
from tidemark.airflow import reset_dag

asks = reset_dag({{file!r}}, dag_id={DAG_ID!r}, approval=True, approvers=["oncall"])
"""


def headers(user: str) -> dict[str, str]:
    """Of a login."""
    known = SimpleAuthManagerUser(username=user, role="admin")
    return {"Authorization": f"Bearer {get_auth_manager().generate_jwt(known)}"}


class Asked:
    """The approval of a run that waits, as Airflow's API answers it."""

    def __init__(self, client: TestClient, run_id: str) -> None:
        self._client = client
        self._task = f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/approve"

    def detail(self) -> dict[str, Any]:
        """What is asked, once the task waits."""
        until(self._settled)
        if self._settled() not in WAITING:
            return {}
        found: dict[str, Any] = self._asked().raise_for_status().json()
        return found

    def _settled(self) -> str | None:
        """The state of the approval; None where it will be another by itself."""
        told = self._client.get(self._task, headers=headers("oncall"))
        state: str = told.raise_for_status().json()["state"]
        is_settled = self._asked().is_success if state in WAITING else state in ENDED
        return state if is_settled else None

    def _asked(self) -> Any:
        """What is asked, as Airflow keeps it."""
        return self._client.get(f"{self._task}/-1/hitlDetails", headers=headers("oncall"))

    def answer(self, option: str, user: str = "oncall") -> int:
        """Answer; returns the status."""
        answered = self._client.patch(
            f"{self._task}/-1/hitlDetails",
            json={"chosen_options": [option], "params_input": {}},
            headers=headers(user),
        )
        return answered.status_code

    def mark(self) -> int:
        """Mark the approval a success, without an answer."""
        body = {"new_state": "success"}
        return self._client.patch(self._task, json=body, headers=headers("oncall")).status_code


def move_on() -> None:
    """Another open takes the region's epoch."""
    known = json.loads(os.environ["AIRFLOW_CONN_TIDEMARK_WAREHOUSE"])
    parameters = {
        "host": known["host"], "port": known["port"], "user": known["login"],
        "password": known["password"], "dbname": known["schema"],
    }  # fmt: skip
    with closing(psycopg2.connect(**parameters)) as connection, connection:
        connection.cursor().execute("UPDATE tidemark.regions SET epoch = epoch + 1")


def answered(client: TestClient, old: set[str], how: str) -> dict[str, Any]:
    """What is seen of the approval of the run that begins, and how it was answered."""
    asked = Asked(client, new_run(old))
    detail = asked.detail()
    codes: list[int] = []
    if how == "moved":
        move_on()
    if how == "marked":
        codes.append(asked.mark())
    elif how == "rejected":
        codes.append(asked.answer("Reject"))
    elif how != "dry":
        codes += [asked.answer("Approve", "somebody"), asked.answer("Approve")]
    return {"body": detail.get("body"), "codes": codes}


def main(file: str, *hows: str) -> None:
    """Print, for each answer, what was asked and how the tasks ended."""
    found: dict[str, dict[str, Any]] = {}
    answer_approvals()
    with TemporaryDirectory() as folder:
        (Path(folder) / "asks.py").write_text(DAG.format(file=file))
        bag = kept_bag(folder)
        client = TestClient(create_app(apps="core"), base_url="http://127.0.0.1")
        for how in hows:
            form = {"to": "initial", "apply": how != "dry", "why": "a drill"}
            with ThreadPoolExecutor(1) as pool:  # Airflow wants the main thread for its signals
                seen = pool.submit(answered, client, {one["run"] for one in found.values()}, how)
                seen.add_done_callback(end_with_error)
                run = bag.dags[DAG_ID].test(run_conf=form)
            states = {one.task_id: str(one.state) for one in run.get_task_instances()}
            found[how] = seen.result() | {"run": run.run_id, "states": states}
    print(json.dumps(found))


def end_with_error(seen: Future[Any]) -> None:
    """The run would wait for ever for an answer that does not come."""
    if error := seen.exception():
        traceback.print_exception(error)
        os._exit(1)


def new_run(old: set[str]) -> str:
    """The id of the run that begins."""

    def found() -> set[str]:
        with create_session() as session:
            runs = session.scalars(select(DagRun.run_id).where(DagRun.dag_id == DAG_ID)).all()
        return {*map(str, runs)} - old

    until(found)
    return found().pop()


if __name__ == "__main__":
    main(*sys.argv[1:])
