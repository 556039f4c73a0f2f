"""The worked example: flights from Kafka to Postgres, exactly once. Settings: flights.yaml."""

from pathlib import Path

from tidemark.airflow import pipeline_dag

dag = pipeline_dag(
    Path(__file__).with_suffix(".yaml"),
    schedule=None,  # or a cron line such as "*/15 * * * *"
    default_args={"owner": "data-platform"},
    owner_links={"data-platform": "mailto:data-platform@example.com"},
)
