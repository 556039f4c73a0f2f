"""A reset from outside: to the head; anything older is a rewind."""

import logging
from collections.abc import Sequence

from tidemark.errors import Fenced
from tidemark.operations.errors import ResetOfNoRun, ResetOvertaken
from tidemark.operations.held import Tell
from tidemark.operations.region import Connections, Region, region_of, topics_gone
from tidemark.operations.reset_report import ResetReport, completed, dry_run, reported_again
from tidemark.operations.rewind import RewindOrder, rewind_region, seq_of
from tidemark.protocol.destination import Destination
from tidemark.protocol.mirror import mirror
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import Settled, settle
from tidemark.settings.pipeline import Pipeline
from tidemark.tracing.traced import traced_run

log = logging.getLogger(__name__)


def reset_region(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str | None,
    apply: bool,
    who: str,
    why: str,
    to: Destination = None,
    overrides: Sequence[str] = (),
    request_id: str | None = None,
    is_cancelled: bool = False,
    tell: Tell = log.info,
) -> ResetReport:
    """Everyone is fenced, nothing is unpublished, Kafka equals the ledger; or what that would do.

    With run_id it resets to the head, and only if that run's epoch still holds the region. `to`
    rewinds: what was published after it is removed. `overrides` of a rewind are kept with it:
    accept_changes removes what is there, though it is not what the ledger published;
    accept_data_loss goes on though Kafka no longer gives all records again. Under one request_id a
    region is reset once; while no other epoch follows, asking again tells what that did. The reset
    of a run that a person has cancelled is not counted among those of failed ones. A dry run
    (apply=False) writes nothing to Postgres or Kafka.

    Raises:
        Superseded: another epoch holds the region; nothing was done.
        Refused: there is no such checkpoint, or Kafka no longer holds what would be read again; or
            the request was done before, and other epochs followed.
    """
    with (
        traced_run("reset", pipeline.region, run_id),
        region_of(pipeline, connections) as region,
    ):
        if apply and request_id and (report := reported_again(region, request_id)):
            return report
        if to is not None:
            order = RewindOrder(who, why, tuple(overrides), request_id, tell)
            return rewind_region(region, seq_of(region, to), order, apply=apply)
        seen, report = dry_run(region)
        if not apply:
            return report
        run = region.ledger.run_of(region.name, run_id) if run_id else None
        if run_id and run is None:
            raise ResetOfNoRun(region=region.name, run_id=run_id)
        epoch = run.epoch if run else None
        gone = topics_gone(region, report.offsets)
        request = ResetRequest(
            who, why, run_id, epoch, seen.mirrored, gone, request_id, is_cancelled
        )
        try:
            settled = _reset(region, request)
        except Fenced as error:
            raise ResetOvertaken(cause=str(error)) from error
        region.ledger.finish_reset(region.name, settled.epoch)
        return completed(region, report, settled)


def _reset(region: Region, request: ResetRequest) -> Settled:
    """Settle; or where this run's reset has been decided and died before its mirror, mirror."""
    decided = region.ledger.unfinished_reset(region.name, request.run_id)
    if decided is None:
        return settle(region.ledger, region.group, region.name, request)
    mirror(region.ledger, region.group, region.name, decided, gone=request.gone)
    return Settled(decided)
