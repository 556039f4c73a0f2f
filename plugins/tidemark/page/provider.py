"""What Airflow lists under Admin, Providers. Connections are those of the providers it names."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The metadata of this provider, as the entry point `apache_airflow_provider` asks for it."""
    return {
        "package-name": "airflow-provider-tidemark",
        "name": "Tidemark",
        "description": "Kafka to Postgres with exactly-once offsets: bounded Spark batches.",
        "integrations": [{"integration-name": "Tidemark", "tags": ["software"]}],
        "operators": [_modules("tidemark.airflow.operators")],
        "sensors": [_modules("tidemark.airflow.sensor")],
        "triggers": [_modules("tidemark.airflow.doorbell", "tidemark.airflow.sensor")],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": "Tidemark", "python-modules": list(names)}
