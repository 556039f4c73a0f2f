"""Processes of our own: what they are given of this one's environment."""

import os
import sys


def is_airflows(name: str) -> bool:
    """Whether a variable is Airflow's configuration, as its Fernet key; no connection is."""
    return name.startswith("AIRFLOW__")


def without_airflow() -> dict[str, str]:
    """This process's environment, without Airflow's configuration."""
    return {name: text for name, text in os.environ.items() if not is_airflows(name)}


def for_python() -> dict[str, str]:
    """The same, for a process that imports what this one does."""
    return without_airflow() | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
