"""An open: a region's new run, with its epoch and its target offsets.

It rests on Kafka's facts, on where partitions start when the region first opens, and, with an
output, on how long it has rested: Kafka forgets what was sent together with the group's offsets.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from tidemark.deadline import Deadline
from tidemark.errors import DataLost, Refused
from tidemark.kafka.admin import offsets_kept_minutes
from tidemark.kafka.facts import rewritten
from tidemark.kafka.locate import confirm_corrupt
from tidemark.ledger.migrate import is_current, migrate
from tidemark.ledger.regions import refuse_shared
from tidemark.ledger.settling import Settling
from tidemark.model.corruption import accepted_ranges, still_due
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts, backlog
from tidemark.model.offsets import LogPosition, Offsets, TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS, ADOPT_GROUP
from tidemark.model.plan import Bounds
from tidemark.model.state import Partition, Run
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.open import UNKNOWN, OpenRequest
from tidemark.protocol.settle import Settled, settle
from tidemark.runs.errors import (
    DataLostWithoutSpent,
    NewRegionCommitsTooFar,
    NewRegionHasCommits,
    NewRegionLacksCommits,
    RefusedWithoutSpent,
)
from tidemark.runs.region import Region, mirror_seen, region_of, unsubscribed
from tidemark.runs.schemas import evolved
from tidemark.settings.endpoints import Connections
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.kafka import FromTimestamp, StartPosition
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.target import refuse_leftovers
from tidemark.tracing.traced import traced_run

log = logging.getLogger(__name__)


def opening_facts(region: Region, overrides: Sequence[str]) -> Facts:
    """Kafka's facts for an open, with high watermarks; with start positions where it is the first.

    Ends below the ledger's offsets are asked for again for a while: a leader that has just
    been elected may not have its last stable offset yet.

    Raises:
        Refused: the group has commits that the start position would pass over; or lacks them, or
            has them beyond the logs' ends.
    """
    facts = _facts_of_logs(region, overrides)
    tops = region.broker.high_watermarks(sorted(facts.ends))
    return replace(facts, high_watermarks=tops)


def _refuse_commits_beyond(region: Region, facts: Facts, committed: Offsets) -> None:
    """What comes up to there would be passed over in silence.

    A consumer that reads uncommitted records may stand above the last stable offset: a later open
    would take that for a log that lost its end.
    """
    beyond = {tp: at for tp, at in committed.items() if at > facts.ends[tp]}
    if beyond:
        raise NewRegionCommitsTooFar(
            region=region.name,
            group=region.group.group_id,
            ends={tp: facts.ends[tp] for tp in beyond},
            committed=beyond,
        )


def _facts_of_logs(region: Region, overrides: Sequence[str]) -> Facts:
    topics = region.broker.topics(region.pipeline.kafka.topics)
    known = region.known_partitions()
    if not known:
        return _first_facts(region, region.broker.facts(topics), overrides)
    facts = region.broker.facts(topics)
    deadline = Deadline(RECHECK_SECONDS)
    while _is_short(known, facts) and not deadline.is_past:
        time.sleep(RECHECK_PAUSE)
        facts = region.broker.facts(topics)
    left = unsubscribed(region, known)
    facts = replace(facts, unsubscribed=left, gone=region.broker.gone(left))
    if ACCEPT_DATA_LOSS not in overrides:
        return facts
    return replace(facts, rewritten=rewritten(region.kafka, _read_up_to(known, facts)))


def _read_up_to(
    known: Mapping[TopicPartition, Partition], facts: Facts
) -> dict[TopicPartition, LogPosition]:
    """Where the log goes on after the last record that was read, in partitions that hold it."""
    found = {tp: position for tp, partition in known.items() if (position := partition.read_up_to)}
    return {
        tp: position
        for tp, position in found.items()
        if facts.topic_ids.get(tp.topic) == known[tp].topic_id
        and tp in facts.ends
        and facts.log_starts[tp] <= position.offset <= facts.ends[tp]
    }


def _is_short(known: Mapping[TopicPartition, Partition], facts: Facts) -> bool:
    return any(facts.ends.get(tp, p.next_offset) < p.next_offset for tp, p in known.items())


def _first_facts(region: Region, facts: Facts, overrides: Sequence[str]) -> Facts:
    start = region.pipeline.kafka.start
    committed = region.group.committed(facts.ends)
    if committed and start is not StartPosition.committed and ADOPT_GROUP not in overrides:
        raise NewRegionHasCommits(
            region=region.name,
            group=region.group.group_id,
            committed=committed,
            start=str(start),
        )
    return replace(facts, starts=_starts(region, facts, committed))


def _starts(region: Region, facts: Facts, committed: Offsets) -> Offsets:
    match region.pipeline.kafka.start:
        case StartPosition.beginning:
            return facts.log_starts
        case StartPosition.end:
            return facts.ends
        case StartPosition.committed:
            missing = tuple(sorted(facts.ends.keys() - committed.keys()))
            if missing:
                raise NewRegionLacksCommits(
                    region=region.name, group=region.group.group_id, partitions=missing
                )
            _refuse_commits_beyond(region, facts, committed)
            return committed
        case FromTimestamp() as moment:
            return region.broker.offsets_at(sorted(facts.ends), moment.milliseconds)


SHARE = 2
"""A pause of half the time that Kafka keeps offsets may be too long the next time."""


def pause_remarks(region: Region) -> list[str]:
    """What a person should know of the pause that ends with this open; nothing if it was short."""
    if region.group.output is None:
        return []
    queries = region.ledger.queries
    ended_at = queries.newest_end(region.name)
    minutes = offsets_kept_minutes(region.kafka) if ended_at else None
    if ended_at is None or minutes is None:
        return []
    pause = queries.now() - ended_at
    if pause * SHARE < timedelta(minutes=minutes):
        return []
    return [
        f"nobody was in the group for {pause.total_seconds() / 3600:.1f} h, and Kafka keeps the"
        f" offsets of such a group for {minutes / 60:.1f} h (offsets.retention.minutes). These"
        " offsets say what was sent to the output topic. Raise that setting, or run more often; if"
        " the offsets are lost, set output.resume_after"
    ]


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
        InvalidSettings, Unreachable: a schema registry says no columns; see `evolved`.
    """
    with (
        traced_run("open", pipeline.region, run_id) as part,
        region_of(pipeline, connections) as region,
    ):
        if not is_current(region.ledger.engine):
            migrate(region.ledger.engine)
        before = None if members_come else region.ledger.run_of(region.name, run_id)
        if before and before.state == "closed":
            return _already_closed(region, before)
        is_over = bool(before and region.ledger.progress(region.name, before.epoch).is_done)
        opened, request = _requested(region, run_id, bounds, overrides)
        pause = pause_remarks(opened)
        settled = _settle(opened, replace(request, who=who, is_over=is_over))
        opened.ledger.remark(opened.name, settled.epoch, pause)
        part.tell({"tidemark.epoch": settled.epoch})
        return _opened(opened, settled.epoch)


def _already_closed(region: Region, run: Run) -> Opened:
    targets = region.ledger.target_offsets(region.name, run.epoch)
    return Opened(run.epoch, 0, targets, (f"run {run.run_id} is done: nothing was opened",))


def _requested(
    region: Region, run_id: str, bounds: Bounds, overrides: Sequence[str]
) -> tuple[Region, OpenRequest]:
    """The region with its columns in use, and the open that is asked for.

    The epoch is read before Kafka is asked, and registries after it: see `OpenRequest.epoch` and
    `evolved`.
    """
    refuse_shared(region.name, region.others())
    epoch = region.ledger.epoch_before(region.name)
    if output := region.group.output:
        output.check()
    given, used_up = _given(region, run_id, overrides)
    facts = opening_facts(region, given)
    state = region.ledger.region_state(region.name)
    columns = evolved(region.pipeline, region.endpoints.registries, state)
    region = replace(region, pipeline=columns.pipeline)
    _create(region, facts)
    confirm_corrupt(region.kafka, accepted_ranges(given), facts.ends)
    offsets = region.ledger.merged_checkpoint(region.name).offsets
    request = replace(
        open_request(region, run_id, bounds, facts, epoch),
        overrides=given,
        used_up=used_up,
        mirrored=mirror_seen(region, offsets).mirrored,
        added=columns.added,
        fit_tables=_fit_tables(region) if columns.added else None,
        remarks=columns.remarks,
    )
    return region, request


def _create(region: Region, facts: Facts) -> None:
    """The region's row, if it has none; its targets have no rows of batches before the first."""
    region.ledger.create_region(
        region.name,
        group_id=region.pipeline.group,
        targets=region.pipeline.tables,
        cluster_id=facts.cluster_id,
    )
    _refuse_leftovers(region)


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


def _fit_tables(region: Region) -> Callable[[Settling], object] | None:
    """Gives the targets the columns of the rows; None where a user's code makes these.

    An open never runs that: a member then gives the tables what they lack.
    """
    from tidemark.runs.fit import known_schemas
    from tidemark.runs.job import fit_targets  # Arrow: other opens need none
    from tidemark.runs.targets import writers_of

    pipeline = region.pipeline
    if pipeline.transform or pipeline.decode.has_own:
        return None
    writers = writers_of(pipeline, known_schemas(region.job_spec()) or {})
    return lambda tx: fit_targets(tx.cursor, region.name, writers, "an open")


def _refuse_leftovers(region: Region) -> None:
    """A region that has published nothing finds no rows of batches in its targets."""
    if region.state().head_seq:
        return
    with autocommit(region.ledger.engine) as cursor:
        for target in region.targets:
            refuse_leftovers(cursor, target)


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
        run_id=run_id,
        bounds=bounds,
        facts=facts,
        epoch=epoch,
        targets=pipeline.tables,
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
