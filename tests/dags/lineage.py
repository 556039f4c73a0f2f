"""Runs the DAG of a folder once, for real, on an Airflow database of its own."""

import json
import sys
from pathlib import Path

from airflow.models.asset import AssetEvent
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import select
from tests.support.airflows import DagBag, keep_one_api_server


def main() -> None:
    initdb()
    keep_one_api_server()
    [dag] = DagBag(dag_folder=sys.argv[1], safe_mode=False).dags.values()
    dag_run = dag.test()
    states = {ti.task_id: ti.state for ti in dag_run.get_task_instances()}
    with create_session() as session:
        events = {one.uri: one.extra for one in session.scalars(select(AssetEvent))}
    Path(sys.argv[1], "states.json").write_text(json.dumps({"tasks": states, "events": events}))


if __name__ == "__main__":
    main()
