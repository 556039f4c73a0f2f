"""What Airflow lists under Admin, Providers. Connections are those of the providers it names."""

from typing import Any

CALLBACKS = {
    "description": "Dotted paths, with commas, of the functions that connections may name in"
    " oauth_cb and password_cb.",
    "version_added": "0.1.0",
    "type": "string",
    "example": "company.logins.kafka_token,company.logins.warehouse_password",
    "default": "",
}
"""An option of Airflow's configuration: tokens/callbacks.py reads it."""


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
        "config": {"tidemark": {"description": None, "options": {"token_callbacks": CALLBACKS}}},
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": "Tidemark", "python-modules": list(names)}
