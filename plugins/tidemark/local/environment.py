"""What clients of the local stack need: Airflow connections as environment variables."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

KAFKA = "AIRFLOW_CONN_TIDEMARK_KAFKA"
WAREHOUSE = "AIRFLOW_CONN_TIDEMARK_WAREHOUSE"
REGISTRY = "AIRFLOW_CONN_TIDEMARK_REGISTRY"
SPARK = "AIRFLOW_CONN_SPARK_DEFAULT"


def connections(
    bootstrap: str,
    warehouse: Mapping[str, Any],
    cluster: Mapping[str, Any] | None = None,
    registry: str | None = None,
) -> dict[str, str]:
    """The connections of the worked examples, as JSON by variable name.

    Without a cluster Spark runs in the driver's process. `registry` is a schema registry's URL.
    """
    postgres = {
        "conn_type": "postgres",
        "host": warehouse["host"],
        "port": warehouse["port"],
        "login": warehouse["user"],
        "password": warehouse["password"],
        "schema": warehouse["dbname"],
        "extra": {"sslmode": "disable"},
    }
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    spark = cluster or {"conn_type": "spark", "host": "local[2]"}
    shapes = {KAFKA: kafka, WAREHOUSE: postgres, SPARK: spark}
    if registry:
        shapes[REGISTRY] = {"conn_type": "http", "host": registry}
    return {name: json.dumps(shape) for name, shape in shapes.items()}


def script(variables: Mapping[str, str]) -> str:
    """The variables as a file for a shell's `source`."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(["# source this; it holds passwords", *lines, ""])
