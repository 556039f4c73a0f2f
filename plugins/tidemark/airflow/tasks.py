"""Tasks: open, close and reset, as Airflow runs them. Only a running task imports the clients."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context, get_current_context

from tidemark.airflow.credentials import resolve
from tidemark.airflow.failures import as_airflow_failure
from tidemark.airflow.forms import BOUNDS, OVERRIDES
from tidemark.errors import RunNotDone, Superseded
from tidemark.model.bounds import Bounds
from tidemark.model.offsets import TopicPartition
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.operations.reset import ResetReport

log = logging.getLogger(__name__)


def open_region(path: str) -> None:
    """Open the DAG run's epoch, within the bounds of its form and with its overrides."""
    from tidemark.operations.run import open_run

    context, pipeline = get_current_context(), Pipeline.load(path)
    params = context["params"]
    with as_airflow_failure():
        opened = open_run(
            pipeline,
            resolve(pipeline),
            run_id=_run_id(context),
            bounds=_bounds(pipeline, params),
            overrides=[name for name in OVERRIDES if params.get(name)],
        )
    log.info("%s", opened)


def close_region(path: str) -> None:
    """Succeed only if the ledger says that the run is done; then tell who waits for the target.

    A run that is not done fails without a retry: no member is left that could finish it.
    """
    from tidemark.operations.run import close_run

    context, pipeline = get_current_context(), Pipeline.load(path)
    with as_airflow_failure(RunNotDone):
        closed = close_run(pipeline, resolve(pipeline), run_id=_run_id(context))
    log.info("%s", closed)
    context["outlet_events"][target_asset(pipeline)].extra = {
        "epoch": closed.checkpoint.epoch,
        "seq": closed.checkpoint.seq,
        "offsets": _named(closed.checkpoint.offsets),
    }


def reset_failed_run(path: str) -> None:
    """Restore the merged checkpoint; succeed as superseded if a newer epoch holds the region."""
    from tidemark.operations.reset import reset_region

    context, pipeline = get_current_context(), Pipeline.load(path)
    run_id = _run_id(context)
    with as_airflow_failure():
        try:
            report = reset_region(
                pipeline,
                resolve(pipeline),
                run_id=run_id,
                apply=True,
                who="airflow",
                why=f"{run_id} did not close",
            )
        except Superseded as superseded:
            log.info("superseded, nothing left to do: %s", superseded)
            return
    log.info("%s", report)


def reset_by_hand(path: str) -> dict[str, Any]:
    """Reset the region whatever epoch holds it, or say what that would change; keep the report.

    `to` of the form is the last checkpoint, or an older place: then it is a rewind, which removes
    the rows and dead letters that were published after it.
    """
    from tidemark.operations.reset import reset_region
    from tidemark.protocol.reset import destination

    context, pipeline = get_current_context(), Pipeline.load(path)
    with as_airflow_failure():
        report = reset_region(
            pipeline,
            resolve(pipeline),
            run_id=None,
            apply=bool(context["params"]["apply"]),
            who=context["dag_run"].triggering_user_name or "airflow",
            why=context["params"]["reason"] or "by hand",
            to=destination(context["params"]["to"]),
            overrides=[name for name in OVERRIDES if context["params"].get(name)],
            request_id=_run_id(context),
        )
    found = _told(report)
    log.info("%s", found)
    return found


def target_asset(pipeline: Pipeline) -> Asset:
    """The target as other DAGs may schedule on it.

    Its address is the connection's id, not its host: a connection is known only to a running
    task, and the postgres scheme refuses an address without host and database.
    """
    connection, table = pipeline.target.connection, pipeline.target.table
    return Asset(
        name=f"{connection}/{table}",
        uri=f"tidemark://{connection}/{table.replace('.', '/')}",
        group="tidemark",
    )


def _run_id(context: Context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}/{ti.run_id}"


def _told(report: "ResetReport") -> dict[str, Any]:
    """The report in JSON's own types, for XCom."""
    found = asdict(report) | {"offsets": _named(report.offsets)}
    if back := report.taken_back:
        found["taken_back"] |= {
            "offsets": _named(back.offsets),
            "margins": _named(back.margins),
            "seconds": _named(back.seconds),
        }
    return found


def _named(by_partition: Mapping[TopicPartition, int | None]) -> dict[str, int | None]:
    return {str(partition): value for partition, value in by_partition.items()}


def _bounds(pipeline: Pipeline, params: dict[str, Any]) -> Bounds:
    wanted = {name: params.get(name) for name in BOUNDS}
    return replace(pipeline.batch.bounds(), **{k: v for k, v in wanted.items() if v is not None})
