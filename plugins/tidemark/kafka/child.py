"""Processes of our own that ask Kafka: what they are given of this one's environment."""

import os
import sys


def environment() -> dict[str, str]:
    """This process's, without Airflow's configuration, which has its keys."""
    known = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW__")}
    return known | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
