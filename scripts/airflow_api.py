"""The few calls of Airflow's REST API that the demonstration needs."""

import time
from collections.abc import Callable
from typing import Any

import httpx

DONE = {"success", "failed"}


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
        _until(lambda: self._get(f"/api/v2/dags/{dag_id}").is_success, seconds, f"DAG {dag_id}")
        self._http.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}).raise_for_status()

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
        _until(lambda: self.state(dag_id, run) in DONE, seconds, f"run {run} of {dag_id}")
        return self.state(dag_id, run)

    def _get(self, path: str) -> httpx.Response:
        return self._http.get(path)


def _until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not ready after {seconds:.0f} s")
        time.sleep(0.5)
