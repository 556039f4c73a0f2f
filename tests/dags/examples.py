"""Runs a DAG of a file once, for real, on Airflow's own database; prints how its tasks ended.

examples.py FILE DAG_ID
"""

import json
import sys

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select
from tests.support.airflows import kept_bag


def main(file: str, dag_id: str) -> None:
    """Print the run's state, and the state and the result of each task."""
    run = kept_bag(file).dags[dag_id].test()
    tasks = {one.task_id: str(one.state) for one in run.get_task_instances()}
    with create_session() as session:
        told = session.scalars(select(XComModel).where(XComModel.key == "return_value"))
        results = {one.task_id: XComModel.deserialize_value(one) for one in told}
    print(json.dumps({"run": str(run.state), "tasks": tasks, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
