"""An open: a region's new run, with its epoch and its target offsets.

It rests on Kafka's facts, on where partitions start when the region first opens, and, with an
output, on how long it has rested: Kafka forgets what was sent together with the group's offsets.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from tidemark.deadline import Deadline
from tidemark.errors import DataLost, Refused
from tidemark.kafka.admin import offsets_kept_minutes
from tidemark.kafka.facts import rewritten
from tidemark.kafka.locate import confirm_corrupt
from tidemark.kafka.retention import deletions_kept
from tidemark.ledger.migrate import is_current, migrate
from tidemark.ledger.regions import refuse_shared
from tidemark.ledger.settling import Settling
from tidemark.model.corruption import accepted_ranges, still_due
from tidemark.model.deletions import SHARE
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts, backlog
from tidemark.model.offsets import LogPosition, Offsets, Span, TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS, ADOPT_GROUP, TAKE_OVER
from tidemark.model.plan import Bounds
from tidemark.model.state import Partition
from tidemark.postgres.session import encoding_of
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.errors import OpenOvertaken
from tidemark.protocol.open import UNKNOWN, OpenRequest
from tidemark.protocol.settle import Settled, settle
from tidemark.runs.errors import (
    AnotherRunAtWork,
    DataLostWithoutSpent,
    NewRegionCommitsTooFar,
    NewRegionHasCommits,
    NewRegionLacksCommits,
    RefusedWithoutSpent,
)
from tidemark.runs.refusals import refusal_kept
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
    is_bound = region.pipeline.needs_deletions
    deletions = deletions_kept(region.kafka, facts.topic_ids) if is_bound else None
    return replace(facts, high_watermarks=tops, deletions=deletions)


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
            region=region.name, group=region.group.group_id, committed=committed, start=str(start)
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


def encoding_remarks(region: Region) -> list[str]:
    """What a first run should know of the database; nothing where it takes all texts."""
    if region.state().head_seq:
        return []
    with autocommit(region.ledger.engine) as cursor:
        encoding = encoding_of(cursor)
    if encoding == "UTF8":
        return []
    return [
        f"the database has the encoding {encoding}: a record with a letter that it lacks is refused"
        " (target.on_refused)"
    ]


COMMAND_LINE = "cli/"
"""How the id of a run begins that has no tasks: see `tidemark run`."""

QUEUED = timedelta(minutes=10)
"""For so long the tasks of a DAG's run may wait for a slot or a retry, with none in the group."""

STARTING = timedelta(minutes=1)
"""For so long the one member of a `tidemark run` may start Spark before it is in the ledger."""

MET = (AnotherRunAtWork, OpenOvertaken)
"""Another run is in the region: an open that waits, and looks again, may go on."""


def refuse_beside(region: Region, run_id: str) -> None:
    """The region's epoch is not that of a run of another id that lives.

    It lives while a member of ours holds partitions in the group, or while nobody can tell that its
    tasks are more than late: by the ledger's times and the database's clock. Who is taken for dead
    and lives is fenced, as ever.

    Raises:
        Refused: it lives.
    """
    found = region.ledger.other_run(region.name, run_id)
    if found is None:
        return
    holders = tuple(
        str(one)
        for one in region.group.holders()
        if one.partitions and one.number(region.name) is not None
    )
    patience = QUEUED
    if found.run_id.startswith(COMMAND_LINE):
        patience = timedelta(0) if found.members else STARTING
    if holders or found.quiet < patience:
        raise AnotherRunAtWork(
            region=region.name,
            run_id=found.run_id,
            quiet_s=int(found.quiet.total_seconds()),
            holders=holders,
        )


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
    is_polite: bool = False,
    who: str = UNKNOWN,
) -> Opened:
    """The region has a new epoch with this run, its target offsets, and Kafka equals the ledger.

    The ledger's schema is brought up to date first. Running it again opens again: a new epoch.
    The ledger keeps who gave the overrides. One goes to one open: one that an earlier open of this
    run had is left out, and a remark says so. Corrupt ranges go to every open of the run until they
    are passed. What refuses it stands in the ledger.
    An open fences whoever holds the region. A polite one does not fence a run of another id that
    is at work, unless it is told to take over.

    Raises:
        Refused: a person must decide (the group has commits, the configuration has changed, too
            many resets in a row, another run is at work); see overrides.
        Superseded: another open came between.
        DataLost: Kafka no longer holds what the ledger needs.
        InvalidSettings, Unreachable: a schema registry says no columns; see `evolved`.
    """
    with (
        refusal_kept(pipeline, run_id, lambda: connections[pipeline.warehouse]),
        traced_run("open", pipeline.region, run_id) as part,
        region_of(pipeline, connections) as region,
    ):
        if not is_current(region.ledger.engine):
            migrate(region.ledger.engine)
        look = partial(refuse_beside, run_id=run_id) if is_polite else None
        opened, request = _requested(region, run_id, bounds, overrides, look)
        remarks = [*encoding_remarks(opened), *pause_remarks(opened)]
        settled = _settle(opened, replace(request, who=who))
        opened.ledger.remark(opened.name, settled.epoch, remarks)
        part.tell({"tidemark.epoch": settled.epoch})
        return _opened(opened, settled.epoch)


def _requested(
    region: Region,
    run_id: str,
    bounds: Bounds,
    overrides: Sequence[str],
    look: Callable[[Region], None] | None,
) -> tuple[Region, OpenRequest]:
    """The region with its columns in use, and the open that is asked for.

    The epoch is read before Kafka is asked, and registries after it: see `OpenRequest.epoch` and
    `evolved`. It is read before others are looked for: who opens after that look is not fenced
    either, for the epoch is another then. And before the time: later epochs have later times.
    """
    refuse_shared(region.name, region.others())
    epoch = region.ledger.epoch_before(region.name)
    asked_at = region.ledger.queries.now()
    given, used_up = _given(region, run_id, overrides)
    if look and TAKE_OVER not in given:
        look(region)
    if output := region.group.output:
        output.check()
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
        asked_at=asked_at,
        mirrored=mirror_seen(region, offsets).mirrored,
        added=columns.added,
        fit_tables=_fit_tables(region) if columns.added else None,
        remarks=(*columns.remarks, *start_remarks(region, facts)),
    )
    return region, request


def start_remarks(region: Region, facts: Facts) -> Iterator[str]:
    """What a person should know of where the region's first run starts."""
    start = region.pipeline.kafka.start
    if isinstance(start, FromTimestamp) and facts.starts:
        yield from _of_a_time(start, facts, region.broker.offsets_at(sorted(facts.ends), 0))
    if facts.deletions and start is StartPosition.committed:
        yield from _of_commits(facts)


def _of_a_time(start: FromTimestamp, facts: Facts, first_held: Offsets) -> Iterator[str]:
    """Each partition in which no record before the time is left: some at the time may be gone."""
    for tp, at in sorted(facts.starts.items()):
        if facts.log_starts[tp] and at <= first_held[tp]:
            gone = Span(*tp, 0, facts.log_starts[tp])
            yield (
                f"{gone}: retention took it before anybody read it, and with it records from"
                f" {start.timestamp.isoformat()} on, perhaps. The partition begins at {at}"
            )


def _of_commits(facts: Facts) -> Iterator[str]:
    """Each compacted topic that somebody has read up to a commit, nobody knows how long ago."""
    behind = {tp.topic for tp, at in facts.starts.items() if at < facts.ends[tp]}
    for topic in sorted(behind):
        if facts.deletions_kept(topic) is not None:
            yield (
                f"topic {topic} is compacted, and how long ago the group committed is not known:"
                " of what a table holds already, deletions may be gone that nobody has read"
            )


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
