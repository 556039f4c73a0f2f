"""A pipeline that runs when records arrive, and a reset that another person approves."""

from pathlib import Path

from tidemark.airflow import on_data, pipeline_dag, reset_dag

FILE = Path(__file__).with_suffix(".yaml")

dag = pipeline_dag(FILE, schedule=on_data(FILE))
reset = reset_dag(FILE, approval=True, approvers=["admin"])
