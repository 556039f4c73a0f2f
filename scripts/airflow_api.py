"""The few calls of Airflow's REST API that the demonstration needs."""

from typing import Any

import httpx
from scripts.demo_steps import wait_for

DONE = {"success", "failed"}
PAUSE_SECONDS = 0.5


class AirflowApi:
    """A client that has logged in."""

    def __init__(self, url: str, login: tuple[str, str]) -> None:
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)
        user, password = login
        answer = self._http.post("/auth/token", json={"username": user, "password": password})
        token = answer.raise_for_status().json()["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def wait_for_dag(self, dag_id: str, seconds: float = 120) -> None:
        """The DAG is known to the scheduler."""
        path = f"/api/v2/dags/{dag_id}"
        wait_for(lambda: self._get(path).is_success, f"DAG {dag_id}", seconds, PAUSE_SECONDS)
        self._http.patch(path, json={"is_paused": False}).raise_for_status()

    def trigger(self, dag_id: str, run: str, conf: dict[str, Any] | None = None) -> None:
        """Start a run under a name of its own: sent twice it starts once."""
        body = {"logical_date": None, "dag_run_id": run, "conf": conf or {}}
        answer = self._http.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        if answer.is_error:
            raise RuntimeError(f"Airflow refused to start {dag_id}: {answer.text}")

    def state(self, dag_id: str, run: str) -> str:
        """The run's state."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run}")
        return str(answer.raise_for_status().json()["state"])

    def tasks(self, dag_id: str, run: str) -> dict[str, str]:
        """Task -> state."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances")
        found = answer.raise_for_status().json()["task_instances"]
        return {task["task_id"]: task["state"] or "none" for task in found}

    def wait(self, dag_id: str, run: str, seconds: float) -> str:
        """The state in which the run ended."""
        end = f"the end of run {run} of {dag_id}"
        wait_for(lambda: self.state(dag_id, run) in DONE, end, seconds, PAUSE_SECONDS)
        return self.state(dag_id, run)

    def _get(self, path: str) -> httpx.Response:
        return self._http.get(path)
