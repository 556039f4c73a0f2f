"""The assets of a pipeline and their events: what a run tells the DAGs that are scheduled on them.

Three for each target: the table by its own address, which hears of rows; the same by the table's
usual address, as an alias; and its periods, if the pipeline file has any, which hear of an hour or
a day when it is complete. No event is ever read back: what was told stands in the ledger.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Context

from tidemark.airflow.compat import add_partitions
from tidemark.airflow.errors import AssetOfNoPeriods, AssetOfNoTarget
from tidemark.model.batch import ONLY
from tidemark.model.plain import plain
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.admin.announce import News
    from tidemark.admin.reset import ResetReport
    from tidemark.ledger.periods import PeriodNews
    from tidemark.protocol.close import Closed
    from tidemark.settings.connections import Connection

log = logging.getLogger(__name__)

Extra = dict[str, Any]

MOST_ACCEPTED = 20
"""So many losses an event names: Airflow keeps it once for each period and target."""

KEYS_FROM = "3.3"
"""The Airflow in which a task may send an event for each key of a partition."""


def target_asset(pipeline: str | Path, target: str = ONLY) -> Asset:
    """The target, by its name if there are several, as other DAGs may schedule on it.

    Its address is the connection's id, not its host: a connection is known only to a running
    task, and the postgres scheme refuses an address without host and database.

    Raises:
        InvalidSettings: the file is wrong, or there is no such target.
    """
    loaded = Pipeline.load(pipeline)
    return _asset(loaded, _known(loaded, target))


def complete_asset(pipeline: str | Path, target: str = ONLY) -> Asset:
    """The periods of the target: each close sends an event for every one that became complete.

    The event has the period's key as its partition key; see docs/complete.md.

    Raises:
        InvalidSettings: the file is wrong, it has no `complete`, or there is no such target.
    """
    loaded = Pipeline.load(pipeline)
    name = _known(loaded, target)
    if loaded.complete is None:
        raise AssetOfNoPeriods(region=loaded.region, file=loaded.path)
    return _periods(loaded, name)


def outlets_of(pipeline: Pipeline) -> list[Asset | AssetAlias]:
    """The assets of all targets, and for each the alias that stands for its table's address."""
    aliases = [_address_alias(pipeline, table) for table in pipeline.tables.values()]
    return [*target_assets(pipeline), *aliases]


def outlets_of_close(pipeline: Pipeline) -> list[Asset | AssetAlias]:
    """The same, and those of the periods."""
    return [*outlets_of(pipeline), *complete_assets(pipeline)]


def target_assets(pipeline: Pipeline) -> list[Asset]:
    """The assets of all targets: each is told of what became visible in all of them at once."""
    return [_asset(pipeline, name) for name in pipeline.tables]


def complete_assets(pipeline: Pipeline) -> list[Asset]:
    """Those of their periods; none without `complete`."""
    return [_periods(pipeline, name) for name in pipeline.tables] if pipeline.complete else []


def send_nothing(context: Context, pipeline: Pipeline) -> None:
    """No event of ours is sent if the task ends well; else Airflow sends one for each outlet."""
    own = [*target_assets(pipeline), *complete_assets(pipeline)]
    task = context["ti"].task
    task.outlets = [one for one in task.outlets if one not in own]


def send(context: Context, assets: Iterable[Asset], extra: Extra, keys: Sequence[str] = ()) -> None:
    """Send an event of each asset if the task ends well; with keys one for each key."""
    for asset in assets:
        context["ti"].task.outlets.append(asset)
        event = context["outlet_events"][asset]
        event.extra = extra
        if keys and not add_partitions(event, keys):
            log.warning("Airflow before %s: one event without partition keys: %s", KEYS_FROM, asset)


def send_of_targets(
    context: Context, pipeline: Pipeline, extra: Extra, warehouse: "Connection"
) -> None:
    """Send one event for each target; the same by its usual address, which the warehouse tells."""
    from tidemark.views.lineage import table_address

    send(context, target_assets(pipeline), extra)
    for table in pipeline.tables.values():
        if address := table_address(warehouse, table):
            alias = _address_alias(pipeline, table)
            context["outlet_events"][alias].add(Asset(address), extra=extra)


def published_event(closed: "Closed", news: "News") -> Extra:
    """The target holds the batches after `after_seq` up to `seq`: so many rows and dead letters."""
    at, counted = closed.checkpoint, news.counted
    return {
        "kind": "published",
        "region": at.region,
        "epoch": at.epoch,
        "after_seq": news.after_seq,
        "seq": at.seq,
        "batches": counted.batches,
        "rows": counted.rows,
        "dead_letters": counted.dead_letters,
        "offsets": plain(at.offsets),
    }


def rewound_event(report: "ResetReport", periods: Sequence[str] = ()) -> Extra | None:
    """Batches after `seq` are gone from the target, and these periods are not complete any more.

    None where nothing was removed. A task that is cleared tells the same again, while its reset
    stands.
    """
    back = report.removed
    if back is None or not report.applied:
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
        **({"periods_taken_back": list(periods)} if periods else {}),
    }


def complete_event(pipeline: Pipeline, closed: "Closed", news: "PeriodNews") -> Extra:
    """All records of these periods are in the target, as far as the file's lateness is true."""
    rule = pipeline.complete
    return {
        "kind": "complete",
        "region": pipeline.region,
        "epoch": closed.checkpoint.epoch,
        "seq": closed.checkpoint.seq,
        **(rule.model_dump(mode="json") if rule else {}),
        "periods": [one.key for one in news.periods],
        "again": list(news.again),
        "complete_at": news.complete_at.isoformat(),
        "transactions_were_open": news.transactions_were_open,
        "accepted": _first(news.accepted),
        "timestamps": news.timestamps,
    }


def _first(accepted: Sequence[str]) -> list[str]:
    left = len(accepted) - MOST_ACCEPTED
    return [*accepted[:MOST_ACCEPTED], *([f"and {left} more"] if left > 0 else [])]


def _known(pipeline: Pipeline, target: str) -> str:
    if target not in pipeline.tables:
        raise AssetOfNoTarget(region=pipeline.region, targets=tuple(pipeline.tables))
    return target


def _asset(pipeline: Pipeline, target: str) -> Asset:
    connection, table = pipeline.warehouse, pipeline.tables[target]
    return Asset(
        name=f"{connection}/{table}",
        uri=f"tidemark://{connection}/{table.replace('.', '/')}",
        group="tidemark",
    )


def _periods(pipeline: Pipeline, target: str) -> Asset:
    table = _asset(pipeline, target)
    return Asset(name=f"{table.name}/complete", uri=f"{table.uri}/complete", group="tidemark")


def _address_alias(pipeline: Pipeline, table: str) -> AssetAlias:
    """What becomes `postgres://host:port/database/schema/table` once a connection is known."""
    return AssetAlias(f"{pipeline.warehouse}/{table}/address", group="tidemark")
