"""Runs sensors of a pipeline file once each, in one DAG, and prints what became of them, as JSON.

sensors.py FILE HEAD LATER
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select
from tests.support.airflows import kept_bag

DAG = """
from airflow.sdk import DAG
from tidemark.airflow import RegionSensor

FILE, HEAD, LATER = {given!r}
usual = dict(pipeline=FILE, poke_interval=0.2, retries=0)

with DAG("sensors", schedule=None) as sensors:
    RegionSensor(task_id="head", at_least="{{{{ %s }}}}" % HEAD, **usual)
    RegionSensor(task_id="whole", complete_at="{{{{ ti.start_date }}}}", deferrable=True, **usual)
    RegionSensor(task_id="both", at_least=int(HEAD), complete_at=LATER, deferrable=True, **usual)
    RegionSensor(task_id="never", at_least=int(HEAD), complete_at="2999-01-01", timeout=0, **usual)
    RegionSensor(task_id="nonsense", at_least="{{{{ 'newest' }}}}", **usual)
"""


def main(*given: str) -> None:
    """Print the state and the result of each task."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "sensors.py").write_text(DAG.format(given=given))
        bag = kept_bag(folder)
        run = bag.dags["sensors"].test()
    states = {one.task_id: str(one.state) for one in run.get_task_instances()}
    with create_session() as session:
        told = session.scalars(select(XComModel).where(XComModel.key == "return_value"))
        results = {one.task_id: XComModel.deserialize_value(one) for one in told}
    print(json.dumps({"states": states, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
