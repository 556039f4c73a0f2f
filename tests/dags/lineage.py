"""Runs the DAG of a folder once, for real, on an Airflow database of its own."""

import json
import sys
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb


def main() -> None:
    initdb()
    [dag] = DagBag(dag_folder=sys.argv[1], safe_mode=False).dags.values()
    dag_run = dag.test()
    states = {ti.task_id: ti.state for ti in dag_run.get_task_instances()}
    Path(sys.argv[1], "states.json").write_text(json.dumps(states))


if __name__ == "__main__":
    main()
