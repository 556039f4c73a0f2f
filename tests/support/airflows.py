"""Names that tests take from Airflow, and that differ between its versions.

Those that the library needs stand in its own `compat`; no module of it is imported here.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import airflow
from airflow import plugins_manager
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.sdk.execution_time import supervisor
from airflow.utils.db import initdb

IS_3_1 = airflow.__version__.startswith("3.1.")

if IS_3_1:
    from airflow.exceptions import (
        AirflowNotFoundException,
        AirflowTaskTimeout,
        ParamValidationError,
    )
    from airflow.models.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization
    from airflow.timetables.base import Timetable as BaseTimetable
else:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk import (  # type: ignore[attr-defined]  # its stub lacks them
        AsyncCallback,
        DeadlineAlert,
        DeadlineReference,
    )
    from airflow.sdk.bases.timetable import BaseTimetable
    from airflow.sdk.exceptions import (
        AirflowNotFoundException,
        AirflowTaskTimeout,
        ParamValidationError,
    )
    from airflow.serialization.serialized_objects import DagSerialization

__all__ = [
    "IS_3_1",
    "IS_BELOW_3_3",
    "SETUPS_COME_ALONG",
    "AirflowNotFoundException",
    "AirflowTaskTimeout",
    "AsyncCallback",
    "BaseTimetable",
    "DagBag",
    "DagSerialization",
    "DeadlineAlert",
    "DeadlineReference",
    "ParamValidationError",
    "answer_approvals",
    "keep_one_api_server",
    "kept_bag",
    "plugin_errors",
    "sync_bag_to_db",
    "taken_by_clear",
]

IS_BELOW_3_3 = airflow.__version__.startswith(("3.1.", "3.2."))
SETUPS_COME_ALONG = not IS_BELOW_3_3
"""Clearing a task alone clears its setups and teardowns too."""


def taken_by_clear(
    dag: Any, run_id: str, task_ids: Collection[str], *, downstream: bool = False
) -> set[str]:
    """What Airflow's endpoint clears of a run: see `test_clearing`, which asks the endpoint."""
    taken = {*task_ids}
    if downstream:
        relatives = dag.partial_subset(
            task_ids=taken, include_downstream=True, include_upstream=False, exclude_original=True
        )
        taken |= relatives.task_dict.keys()
    found = dag.clear(dry_run=True, run_id=run_id, task_ids=sorted(taken))
    return {ti.task_id for ti in found}


def plugin_errors() -> dict[str, Any]:
    """Of the plugins that are loaded."""
    if IS_3_1:
        return dict(plugins_manager.import_errors)
    return dict(plugins_manager.get_import_errors())


def keep_one_api_server() -> None:
    """For all tasks of `dag.test`; 3.1 and 3.2 make one for each, which takes them seconds."""
    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)


def answer_approvals() -> None:
    """In `dag.test`, as the triggerer does it: the trigger of 3.1 and 3.2 looks for an answer."""
    if not IS_BELOW_3_3:
        return
    from airflow.jobs.triggerer_job_runner import HITLDetailResponseResult
    from airflow.sdk.execution_time.comms import GetHITLDetailResponse

    others = supervisor.InProcessTestSupervisor._handle_request

    def handled(self: Any, asked: Any, log: Any, number: int) -> None:
        if not isinstance(asked, GetHITLDetailResponse):
            others(self, asked, log, number)
            return
        told = self.client.hitl.get_detail_response(ti_id=asked.ti_id)
        self.send_msg(HITLDetailResponseResult.from_api_response(told), request_id=number)

    supervisor.InProcessTestSupervisor._handle_request = handled


def kept_bag(folder: str | Path) -> Any:
    """The DAGs of a folder or a file, as Airflow's new database keeps them, for `dag.test`."""
    bag = DagBag(dag_folder=folder, safe_mode=False)
    assert not bag.import_errors, bag.import_errors
    initdb()
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    keep_one_api_server()
    return bag
