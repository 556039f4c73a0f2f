"""Events: what is told of a target to the DAGs that are scheduled on it."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowRuntimeError

from tidemark.model.plain import plain

if TYPE_CHECKING:
    from tidemark.ledger.looks import Counted
    from tidemark.operations.reset_report import ResetReport
    from tidemark.protocol.close import Closed

log = logging.getLogger(__name__)

Extra = dict[str, Any]


def newest(context: Context, asset: Asset) -> Extra:
    """What the newest event says; nothing if there is none.

    Airflow is asked, for it knows what was sent: a run that failed published and told nobody.
    """
    try:
        found = context["inlet_events"][asset].ascending(False).limit(1)
        return dict(found[0].extra) if len(found) else {}
    except AirflowRuntimeError as error:
        log.warning("the newest event is unknown, so one is sent: %s", error)
        return {}


def send(context: Context, assets: Sequence[Asset], extra: Extra | None) -> None:
    """Send one event for each if the task ends well; none without extra."""
    if extra is None:
        # Airflow sends one for each outlet of a task, whether or not it was given an extra.
        context["ti"].task.outlets = []
    else:
        for asset in assets:
            context["outlet_events"][asset].extra = extra


def published(closed: "Closed", after_seq: int, counted: "Counted") -> Extra:
    """The target holds the batches after `after_seq` up to `seq`: so many rows and dead letters."""
    at = closed.checkpoint
    return {
        "kind": "published",
        "region": at.region,
        "epoch": at.epoch,
        "after_seq": after_seq,
        "seq": at.seq,
        "batches": counted.batches,
        "rows": counted.rows,
        "dead_letters": counted.dead_letters,
        "offsets": plain(at.offsets),
    }


def rewound(report: "ResetReport", told: Extra) -> Extra | None:
    """Batches after `seq` are gone from the target; None where nothing was removed.

    None too where the newest event, `told`, says so: a task that is cleared reports again.
    """
    back = report.removed
    if back is None or not report.applied:
        return None
    if (told.get("kind"), told.get("epoch")) == ("rewound", report.epoch):
        return None
    return {
        "kind": "rewound",
        "region": report.region,
        "epoch": report.epoch,
        "from_seq": report.head_seq,
        "seq": report.to_seq,
        "batches_removed": back.batches,
        "rows_removed": back.rows,
        "dead_letters_removed": back.dead_letters,
        "offsets": plain(report.offsets),
    }
