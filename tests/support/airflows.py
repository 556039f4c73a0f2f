"""Names that tests take from Airflow, and that differ between its versions.

Those that the library needs stand in its own `compat`; no module of it is imported here.
"""

from typing import Any

import airflow
from airflow import plugins_manager

IS_3_1 = airflow.__version__.startswith("3.1.")

if IS_3_1:
    from airflow.exceptions import (
        AirflowNotFoundException,
        AirflowTaskTimeout,
        ParamValidationError,
    )
    from airflow.models.dagbag import DagBag, sync_bag_to_db
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization
    from airflow.timetables.base import Timetable as BaseTimetable
else:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk.bases.timetable import BaseTimetable
    from airflow.sdk.exceptions import (
        AirflowNotFoundException,
        AirflowTaskTimeout,
        ParamValidationError,
    )
    from airflow.serialization.serialized_objects import DagSerialization

__all__ = [
    "IS_3_1",
    "AirflowNotFoundException",
    "AirflowTaskTimeout",
    "BaseTimetable",
    "DagBag",
    "DagSerialization",
    "ParamValidationError",
    "plugin_errors",
    "sync_bag_to_db",
]


def plugin_errors() -> dict[str, Any]:
    """Of the plugins that are loaded."""
    if IS_3_1:
        return dict(plugins_manager.import_errors)
    return dict(plugins_manager.get_import_errors())
