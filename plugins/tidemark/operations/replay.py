"""A replay of dead letters from outside: what it would do, and all of it in one process."""

from dataclasses import replace

from tidemark.errors import TargetRefused
from tidemark.ledger.actions import Order
from tidemark.model.dead_letters import LetterFilter
from tidemark.operations.drain import ExecutorOf
from tidemark.operations.errors import ReplayedRowRefused
from tidemark.operations.region import Connections, Region, region_of
from tidemark.operations.replay_report import ReplayReport, dry_run
from tidemark.operations.replay_request import refusal
from tidemark.operations.replaying import Replay, refuse_upserts, replaying
from tidemark.protocol.replay import Replayed, plan_replay, publish_replay
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.replay import ReplayMover


def replay_letters(
    pipeline: Pipeline,
    connections: Connections,
    meant: LetterFilter,
    limit: int,
    order: Order | None,
    executor_of: ExecutorOf,
) -> ReplayReport:
    """Dead letters that can be decoded now are rows; without an order the report says which.

    If it crashes: the dead letters are as they were, or the batch is published whole.

    Raises:
        Refused: the target is upserted, the region is not at rest, or rows would be made with other
            settings than those of the checkpoint.
        Fenced, Superseded: another open or a reset came; nothing was published.
        TargetRefused: a constraint of the target refuses a row; nothing was published.
    """
    refuse_upserts(pipeline, "dead letters")
    with region_of(pipeline, connections) as found:
        region = found.with_kept_columns()
        report = dry_run(region, connections, meant, limit)
        if order is None:
            return replace(report, refused=refusal(region, connections))
        if not report.chosen:
            return report
        return _replayed(region, connections, meant, limit, order, executor_of, report)


def _replayed(
    region: Region,
    connections: Connections,
    meant: LetterFilter,
    limit: int,
    order: Order,
    executor_of: ExecutorOf,
    report: ReplayReport,
) -> ReplayReport:
    try:
        with replaying(region, connections, order, "dead letters", executor_of) as replay:
            done = _published(replay, meant, limit)
    except TargetRefused as error:
        raise ReplayedRowRefused(cause=str(error)) from error
    if done is None:
        return replace(report, epoch=replay.epoch, chosen=0, replayed=0, kept={})
    is_alike = sum(report.kept.values()) == done.kept
    return replace(
        report,
        applied=True,
        epoch=replay.epoch,
        head_seq=done.seq,
        chosen=done.replayed + done.kept,
        replayed=done.replayed,
        kept=report.kept if is_alike else {"(see dead-letters)": done.kept},
        rows=done.rows,
    )


def _published(replay: Replay, meant: LetterFilter, limit: int) -> Replayed | None:
    """Plan, drain and publish; None where nothing is left to replay."""
    ledger = replay.region.ledger
    batch = plan_replay(ledger, replay.region.name, replay.epoch, meant, limit)
    if batch is None:
        return None
    return publish_replay(ledger, ReplayMover(replay.movers), batch, replay.staged(batch))
