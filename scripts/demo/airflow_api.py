"""The few calls of Airflow's REST API that the demonstration and the tests need."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from scripts.demo.steps import WAIT_SECONDS, wait_for

from tidemark.deadline import Deadline

DONE = {"success", "failed"}
PAUSE_SECONDS = 0.5
ANSWER_SECONDS = 120
"""For one request: an Airflow that starts its first tasks on a busy machine took over 30 s."""
IS_THERE = 409
"""A run of that name was started before."""


class AirflowApi:
    """A client that has logged in."""

    def __init__(self, url: str, login: tuple[str, str]) -> None:
        self.http = httpx.Client(base_url=url, timeout=ANSWER_SECONDS, trust_env=False)
        user, password = login
        body = {"username": user, "password": password}
        answer = answered(lambda: self.http.post("/auth/token", json=body))
        token = answer.raise_for_status().json()["access_token"]
        self.http.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a page below /api/v2."""
        return self.ask(path, **query).raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON of the answer, from a page below /api/v2."""
        return self.http.post(f"/api/v2/{path}", json=body).raise_for_status().json()

    def ask(self, path: str, **query: Any) -> httpx.Response:
        """The answer of a page below /api/v2, an error too."""
        return answered(lambda: self.http.get(f"/api/v2/{path}", params=query))

    def wait_for_dag(self, dag_id: str, seconds: float = 120) -> None:
        """The DAG is known to the scheduler."""
        path = f"dags/{dag_id}"
        wait_for(lambda: self.ask(path).is_success, f"DAG {dag_id}", seconds, PAUSE_SECONDS)
        self.http.patch(f"/api/v2/{path}", json={"is_paused": False}).raise_for_status()

    def trigger(self, dag_id: str, run: str, **conf: Any) -> None:
        """Start a run under a name of its own: sent twice it starts once."""
        body = {"logical_date": None, "dag_run_id": run, "conf": conf}
        answer = answered(lambda: self.http.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body))
        if answer.is_error and answer.status_code != IS_THERE:
            raise RuntimeError(f"Airflow refused to start {dag_id}: {answer.text}")

    def state(self, dag_id: str, run: str) -> str:
        """The run's state."""
        return str(self.get(f"dags/{dag_id}/dagRuns/{run}")["state"])

    def instances(self, dag_id: str, run: str) -> list[dict[str, Any]]:
        """The run's task instances."""
        found: list[dict[str, Any]] = self.get(f"dags/{dag_id}/dagRuns/{run}/taskInstances")[
            "task_instances"
        ]
        return found

    def tasks(self, dag_id: str, run: str) -> dict[str, str]:
        """Task -> state."""
        return {one["task_id"]: one["state"] or "none" for one in self.instances(dag_id, run)}

    def wait(self, dag_id: str, run: str) -> str:
        """The state in which the run ended.

        Raises:
            TimeoutError: it did not; names the states of its tasks.
        """
        end = f"the end of run {run} of {dag_id}"
        try:
            wait_for(lambda: self.state(dag_id, run) in DONE, end, WAIT_SECONDS, PAUSE_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.tasks(dag_id, run)}") from None
        return self.state(dag_id, run)


def answered(send: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer to what may be sent twice: without one it is sent again, as long as a wait takes.

    Raises:
        httpx.TransportError: there was none.
    """
    deadline = Deadline(WAIT_SECONDS)
    while True:
        try:
            return send()
        except httpx.TransportError:
            if deadline.is_past:
                raise
        time.sleep(PAUSE_SECONDS)
