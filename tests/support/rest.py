"""Airflow's REST API as a test uses it: trigger, wait, look."""

from pathlib import Path
from typing import Any

import httpx
from tests.support.waiting import until

from tidemark_local._airflow import Airflow

ENDED = {"success", "failed"}


class AirflowApi:
    """One logged-in client of a running Airflow."""

    def __init__(self, airflow: Airflow) -> None:
        self._http = httpx.Client(base_url=airflow.url, timeout=120, trust_env=False)
        user, password = airflow.login
        login = {"username": user, "password": password}
        token = self._http.post("/auth/token", json=login).raise_for_status().json()
        self._http.headers["Authorization"] = f"Bearer {token['access_token']}"

    def get(self, path: str, **query: Any) -> Any:
        return self._http.get(f"/api/v2/{path}", params=query).raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._http.post(f"/api/v2/{path}", json=body).raise_for_status().json()

    def until_parsed(self, dag_id: str, dags: Path, within: float = 300) -> None:
        """Airflow has the DAG from this folder, not from that of an earlier session."""
        until(lambda: dags in self._file(dag_id).parents, within, lambda: dag_id, pause=0.5)

    def _file(self, dag_id: str) -> Path:
        answer = self._http.get(f"/api/v2/dags/{dag_id}")
        found = answer.json() if answer.status_code == 200 else {"is_stale": True}
        return Path() if found["is_stale"] else Path(str(found["fileloc"]))

    def end_runs(self, dag_id: str) -> None:
        """No run of the DAG is left over from a session that broke off."""
        for state in ("queued", "running"):
            for run in self.get(f"dags/{dag_id}/dagRuns", state=state)["dag_runs"]:
                path = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}"
                self._http.patch(path, json={"state": "failed"}).raise_for_status()

    def run(self, dag_id: str, run_id: str, within: float = 600, **conf: Any) -> str:
        """Trigger a run and return the state that it ends in."""
        self.trigger(dag_id, run_id, **conf)
        return self.until_ended(dag_id, run_id, within)

    def trigger(self, dag_id: str, run_id: str, **conf: Any) -> None:
        """Trigger a run."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        self.post(f"dags/{dag_id}/dagRuns", body)

    def clear(self, dag_id: str, run_id: str, task_id: str, *, dry_run: bool) -> set[str]:
        """Clear a task, as the page's button does; returns the tasks that are cleared with it."""
        body = {
            "dry_run": dry_run,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "only_failed": False,
        }
        cleared = self.post(f"dags/{dag_id}/clearTaskInstances", body)["task_instances"]
        return {task["task_id"] for task in cleared}

    def until_ended(self, dag_id: str, run_id: str, within: float = 600) -> str:
        """Return the state that the run ends in."""

        def state() -> str:
            return str(self.get(f"dags/{dag_id}/dagRuns/{run_id}")["state"])

        until(lambda: state() in ENDED, within, lambda: self.tasks(dag_id, run_id), pause=0.5)
        return state()

    def instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[dict[str, Any]] = self.get(path)["task_instances"]
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Task -> state."""
        return {task["task_id"]: task["state"] for task in self.instances(dag_id, run_id)}

    def log(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
        """What the first try wrote."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/1"
        return str(self.get(path, map_index=map_index, full_content=True))

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What the task returned."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries"
        return self.get(f"{path}/return_value")["value"]
