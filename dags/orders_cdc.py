"""The worked example orders_cdc, and its reset by hand. Settings: orders_cdc.yaml."""

from pathlib import Path

from tidemark.airflow import pipeline_dag, reset_dag

SETTINGS = Path(__file__).with_suffix(".yaml")
OWNER = {"owner": "data-platform"}
LINKS = {"data-platform": "mailto:data-platform@example.com"}

dag = pipeline_dag(SETTINGS, schedule=None, default_args=OWNER, owner_links=LINKS)
reset = reset_dag(SETTINGS, default_args=OWNER, owner_links=LINKS)
