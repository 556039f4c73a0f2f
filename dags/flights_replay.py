"""Replay of the worked example by hand: a dry run unless told otherwise. Settings: flights.yaml."""

from pathlib import Path

from tidemark.airflow import replay_dag

dag = replay_dag(
    Path(__file__).with_name("flights.yaml"),
    default_args={"owner": "data-platform"},
    owner_links={"data-platform": "mailto:data-platform@example.com"},
)
