"""Airflow's SparkSubmitOperator, without OpenLineage's client where nobody listens to that.

Its module imports the client, and with it much of Airflow's server, in each process that parses a
DAG file: 0.2 s of CPU. For the import alone that looks as if the provider were not there, for which
Airflow's own module has a way.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

_CLIENTS = "airflow.providers.openlineage.utils.spark"
_ASKS_FOR_IT = "airflow.providers.common.compat.openlineage.utils.spark"


def is_wanted() -> bool:
    """Whether OpenLineage's provider is installed, and configured to send anything."""
    try:
        if find_spec("airflow.providers.openlineage") is None:
            return False
        from airflow.providers.openlineage.conf import is_disabled

        return not is_disabled()
    except ImportError:
        return False


@contextmanager
def _withheld(name: str) -> Iterator[None]:
    """The module is not to be found inside."""
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


if not is_wanted() and _CLIENTS not in sys.modules:
    with _withheld(_CLIENTS):
        import_module(_ASKS_FOR_IT)

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # noqa: E402
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator  # noqa: E402

__all__ = ["SparkSubmitHook", "SparkSubmitOperator", "is_wanted"]
