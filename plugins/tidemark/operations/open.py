"""An open: a region's new run, with its epoch and its target offsets."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.errors import DataLost, Refused
from tidemark.kafka.locate import confirm_corrupt
from tidemark.ledger.migrate import is_current, migrate
from tidemark.ledger.owners import refuse_shared
from tidemark.model.corruption import accepted_ranges, still_due
from tidemark.model.facts import Facts, backlog
from tidemark.model.offsets import Offsets
from tidemark.model.plan import Bounds
from tidemark.operations.errors import DataLostWithoutSpent, RefusedWithoutSpent
from tidemark.operations.opening_facts import opening_facts
from tidemark.operations.output_pause import pause_remarks
from tidemark.operations.region import Connections, Region, mirror_seen, region_of
from tidemark.operations.schemas import taken
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.changes import Tables
from tidemark.protocol.open import UNKNOWN, OpenRequest
from tidemark.protocol.settle import Settled, settle
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.leftover import refuse_leftovers
from tidemark.staging.target import Target
from tidemark.tracing.traced import traced_run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open run: its epoch and what there is to read, in offsets."""

    epoch: int
    backlog: int
    targets: Offsets
    remarks: tuple[str, ...] = ()
    """What was found and did not stop it: what was accepted, and a restored ledger."""


def open_run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str,
    bounds: Bounds,
    overrides: Sequence[str] = (),
    members_come: bool = True,
    who: str = UNKNOWN,
) -> Opened:
    """The region has a new epoch with this run, its target offsets, and Kafka equals the ledger.

    The ledger's schema is brought up to date first. Running it again opens again: a new epoch.
    The ledger keeps who gave the overrides. One goes to one open: one that an earlier open of this
    run had is left out, and a remark says so. Corrupt ranges go to every open of the run until they
    are passed.
    Where no member comes after it, an earlier epoch of the run has done its work, or nobody does: a
    run that is closed stays so, and one that has reached its targets is not given later ones.

    Raises:
        Refused: a person must decide (the group has commits, the configuration has changed, too
            many resets in a row); see overrides.
        DataLost: Kafka no longer holds what the ledger needs.
        InvalidSettings, Unreachable: a schema registry says no columns; see `taken`.
    """
    with (
        traced_run("open", pipeline.region, run_id) as part,
        region_of(pipeline, connections) as found,
    ):
        region = found
        if not is_current(region.ledger.engine):
            migrate(region.ledger.engine)
        before = None if members_come else region.ledger.run_of(region.name, run_id)
        if before and before.state == "closed":
            targets = region.ledger.target_offsets(region.name, before.epoch)
            return Opened(before.epoch, 0, targets, (f"run {run_id} is done: nothing was opened",))
        is_over = bool(before and region.ledger.progress(region.name, before.epoch).is_done)
        refuse_shared(region.name, region.others())
        epoch = region.ledger.epoch_before(region.name)
        if output := region.group.output:
            output.check()
        given, used_up = _given(region, run_id, overrides)
        facts = opening_facts(region, given)
        columns = taken(pipeline, connections, region.ledger.region_state(region.name))
        region = replace(region, pipeline=columns.pipeline)
        region.ledger.create_region(
            pipeline.region,
            group_id=pipeline.group,
            targets=pipeline.tables,
            cluster_id=facts.cluster_id,
        )
        _refuse_leftovers(region)
        confirm_corrupt(region.kafka, accepted_ranges(given), facts.ends)
        offsets = region.ledger.merged_checkpoint(region.name).offsets
        request = replace(
            open_request(region, run_id, bounds, facts, epoch),
            overrides=given,
            who=who,
            used_up=used_up,
            mirrored=mirror_seen(region, offsets).mirrored,
            added=columns.added,
            tables=_tables(region, connections) if columns.added else None,
            remarks=columns.remarks,
            is_over=is_over,
        )
        pause = pause_remarks(region)
        settled = _settle(region, request)
        region.ledger.remark(region.name, settled.epoch, pause)
        part.tell({"tidemark.epoch": settled.epoch})
        return _opened(region, settled.epoch)


def _given(
    region: Region, run_id: str, overrides: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The overrides that this open has, and those that earlier ones of the run have used up."""
    used = region.ledger.used_overrides(region.name, run_id)
    known = region.known_partitions() if used else {}
    stand = {tp: partition.next_offset for tp, partition in known.items()}
    left = {one: still_due(one, stand) if one in used else one for one in overrides}
    used_up = {one: used[one] for one in overrides if left[one] is None}
    return tuple(one for one in left.values() if one), used_up


def _tables(region: Region, connections: Connections) -> Tables | None:
    """For the columns of the rows; None where a user's code makes them, which an open never runs.

    A member then gives the tables what they lack.
    """
    from tidemark.member.job import NewColumns, movers_of  # Arrow: other opens need none
    from tidemark.operations.fit import known_schemas

    pipeline = region.pipeline
    if pipeline.transform or pipeline.decode.has_own:
        return None
    schemas = known_schemas(pipeline, connections) or {}
    return NewColumns(region.name, movers_of(pipeline, schemas))


def _refuse_leftovers(region: Region) -> None:
    """A region that has published nothing finds no rows of batches in its targets."""
    if region.state().head_seq:
        return
    with autocommit(region.ledger.engine) as cursor:
        for name, table in region.pipeline.tables.items():
            refuse_leftovers(cursor, Target.parse(table, name))


def _settle(region: Region, request: OpenRequest) -> Settled:
    """Settle; a refusal says which overrides were left out, for the form still shows them."""
    try:
        return settle(region.ledger, region.group, region.name, request)
    except (DataLost, Refused) as error:
        spent = tuple(request.spent())
        if not spent:
            raise
        case = DataLostWithoutSpent if isinstance(error, DataLost) else RefusedWithoutSpent
        raise case(cause=str(error), spent=spent) from error


def open_request(
    region: Region, run_id: str, bounds: Bounds, facts: Facts, epoch: int
) -> OpenRequest:
    """An open of the region as its pipeline says it, nothing overridden."""
    pipeline = region.pipeline
    return OpenRequest(
        run_id,
        bounds,
        facts,
        epoch,
        pipeline.tables,
        fingerprint=fingerprint(pipeline),
        max_consecutive_resets=pipeline.max_consecutive_resets,
        limits=pipeline.dead_letters.limits(),
    )


def _opened(region: Region, epoch: int) -> Opened:
    offsets = region.ledger.merged_checkpoint(region.name).offsets
    targets = region.ledger.target_offsets(region.name, epoch)
    run = region.ledger.run_at(region.name, epoch)
    remarks = tuple(run.remarks) if run else ()
    for remark in remarks:
        log.warning("region %s: %s", region.name, remark)
    return Opened(epoch, backlog(offsets, targets), targets, remarks)
