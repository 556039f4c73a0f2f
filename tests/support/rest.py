"""Airflow's REST API as a test uses it: what the demonstration calls, and what only tests do."""

from pathlib import Path
from typing import Any

from scripts.demo.airflow_api import AirflowApi
from tests.support.waiting import until

from tidemark_local._airflow import Airflow

AT_WORK = ["queued", "running", "deferred"]


class AirflowUnderTest(AirflowApi):
    """The Airflow of these tests, with the calls that only they make."""

    def __init__(self, airflow: Airflow) -> None:
        super().__init__(airflow.url, airflow.login)

    def until_parsed(self, dag_id: str, dags: Path, within: float = 300) -> None:
        """Airflow has the DAG from this folder, not from that of an earlier session."""
        until(lambda: dags in self._file(dag_id).parents, within, lambda: dag_id, pause=0.5)

    def _file(self, dag_id: str) -> Path:
        answer = self.ask(f"dags/{dag_id}")
        found = answer.json() if answer.status_code == 200 else {"is_stale": True}
        return Path() if found["is_stale"] else Path(str(found["fileloc"]))

    def end_runs(self, dag_id: str) -> None:
        """No run of the DAG is left over from a session that broke off."""
        for state in ("queued", "running"):
            for run in self.get(f"dags/{dag_id}/dagRuns", state=state)["dag_runs"]:
                path = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}"
                self.http.patch(path, json={"state": "failed"}).raise_for_status()

    def pause(self, dag_id: str) -> None:
        """No task of the DAG is at work; a run that had begun stays as it is."""
        self.http.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": True}).raise_for_status()
        path = f"dags/{dag_id}/dagRuns/~/taskInstances"
        until(lambda: not self.get(path, state=AT_WORK)["task_instances"], 300, pause=1)

    def run(self, dag_id: str, run_id: str, **conf: Any) -> str:
        """Trigger a run and return the state that it ends in."""
        self.trigger(dag_id, run_id, **conf)
        return self.wait(dag_id, run_id)

    def clear(self, dag_id: str, run_id: str, task_id: str, *, dry_run: bool) -> set[str]:
        """Clear a task as the page does by default; returns the tasks that are cleared with it."""
        body = {
            "dry_run": dry_run,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "include_downstream": True,
            "only_failed": False,
        }
        cleared = self.post(f"dags/{dag_id}/clearTaskInstances", body)["task_instances"]
        return {task["task_id"] for task in cleared}

    def log(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
        """What the first try wrote."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/1"
        return str(self.get(path, map_index=map_index, full_content=True))

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What the task returned."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries"
        return self.get(f"{path}/return_value")["value"]
