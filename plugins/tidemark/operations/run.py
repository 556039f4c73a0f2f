"""A run from outside: open, drain, close. Each is one Airflow task or one CLI step."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from tidemark.errors import DataLost, Fenced, Refused, RunNotDone, TidemarkError, Unreachable
from tidemark.kafka.locate import confirm_corrupt, located
from tidemark.kafka.member import Member
from tidemark.kafka.names import client_id_of, static_name
from tidemark.ledger.looks import Counted, Looks
from tidemark.ledger.migrate import is_current, migrate
from tidemark.member.drain import Drain, Drained
from tidemark.member.job import JobExecutor
from tidemark.member.member_run import MemberRun
from tidemark.member.outage import waited_out
from tidemark.member.retire import green, prune, retire
from tidemark.model.bounds import Bounds
from tidemark.model.corruption import accepted_ranges
from tidemark.model.facts import Facts, backlog
from tidemark.model.offsets import Offsets
from tidemark.operations.region import Connections, Region, mirror_seen, opening_facts, region_of
from tidemark.operations.reset import reset_region
from tidemark.protocol.close import Closed, close, fail
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.settle import Settled, settle
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)

ExecutorOf = Callable[[Pipeline, Connections, int], JobExecutor]

TAKE_OVER = "take_over"

EVICTION_SECONDS = 5.0
"""What a coordinator may take to evict a member after its session has ended."""

LEAVE_PAUSE = 3.0
"""Between two looks whether the members of another run have left."""


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
) -> Opened:
    """The region has a new epoch with this run, its target offsets, and Kafka equals the ledger.

    The ledger's schema is brought up to date first. Running it again opens again: a new epoch.
    An override goes to one open: one that an earlier open of this run had is left out, and a remark
    says so.

    Raises:
        Refused: a person must decide (the group has commits, the configuration has changed, too
            many resets in a row); see overrides.
        DataLost: Kafka no longer holds what the ledger needs.
    """
    with region_of(pipeline, connections) as region:
        if not is_current(region.ledger.engine):
            migrate(region.ledger.engine)
        known = region.ledger.region_state(region.name)
        used = region.ledger.used_overrides(region.name, run_id)
        given = tuple(name for name in overrides if name not in used)
        facts = opening_facts(region, given)
        region.ledger.create_region(
            pipeline.region,
            group_id=pipeline.group,
            target=pipeline.target.table,
            cluster_id=facts.cluster_id,
        )
        confirm_corrupt(region.kafka, accepted_ranges(overrides), facts.ends)
        offsets = region.ledger.merged_checkpoint(region.name).offsets
        request = replace(
            open_request(region, run_id, bounds, facts, known.epoch if known else 0),
            overrides=given,
            used_up={name: used[name] for name in overrides if name in used},
            mirrored=mirror_seen(region, offsets).mirrored,
        )
        settled = _settle(region, request)
        return _opened(region, settled.epoch, facts)


def _settle(region: Region, request: OpenRequest) -> Settled:
    """Settle; a refusal says which overrides were left out, for the form still shows them."""
    try:
        return settle(region.ledger, region.group, region.name, request)
    except (DataLost, Refused) as error:
        spent = list(request.spent())
        if not spent:
            raise
        raise type(error)(f"{error}. {'; '.join(spent)}") from error


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
        pipeline.target.table,
        fingerprint=fingerprint(pipeline),
        max_consecutive_resets=pipeline.max_consecutive_resets,
        limits=pipeline.dead_letters.limits(),
    )


def drain_run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str,
    member_name: str,
    executor_of: ExecutorOf,
    slot: int = 1,
) -> Drained:
    """One member has worked until the ledger says that the run is done.

    `slot` (1..members) names it in the group where membership is static.

    Raises:
        RunNotDone: the run never opened.
        TidemarkError: see errors.py; the exit code says whether a retry may help.
    """
    with region_of(pipeline, connections) as region:
        run = region.ledger.run_of(region.name, run_id)
        if run is None:
            raise RunNotDone(f"region {region.name}: run {run_id} is not open; open it first")
        number = region.ledger.register_member(region.name, run.epoch, uuid4(), member_name)
        targets = region.ledger.target_offsets(region.name, run.epoch)
        topics = sorted({partition.topic for partition in targets})
        with located(region.kafka), _member(region, topics, number, slot) as member:
            member_run = MemberRun(
                pipeline,
                run.epoch,
                number,
                topics,
                region.ledger,
                region.broker,
                region.group,
                member,
                lambda: executor_of(pipeline, connections, number),
            )
            return Drain(member_run).work()


def close_run(pipeline: Pipeline, connections: Connections, *, run_id: str) -> Closed:
    """The ledger says that the run is done, Kafka reads back equal, old staging is dropped.

    An outage is waited out for no_progress_seconds.

    Raises:
        RunNotDone: it is not; the text says why.
        Unreachable: the outage lasted longer; a retry may still close the run.
        Fenced: another run or a reset holds the region.
    """
    with region_of(pipeline, connections) as region:
        closed = _closed(region, run_id)
        with green(region.name):
            retire(region.ledger.engine, region.name)
            epoch = closed.checkpoint.epoch
            prune(region.ledger, region.name, epoch, pipeline.retain_checkpoints)
        return closed


def counted_after(pipeline: Pipeline, connections: Connections, seq: int) -> Counted:
    """What is published after a checkpoint, whichever runs did it; nothing of what is rewound."""
    with region_of(pipeline, connections) as region:
        return Looks(region.ledger.engine).counted_after(region.name, seq)


def run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    bounds: Bounds,
    executor_of: ExecutorOf,
    overrides: Sequence[str] = (),
) -> Closed:
    """The same run without Airflow: open, drain as one member, close; reset when it fails.

    Raises:
        Refused: members of another run live in the group; see overrides.
        TidemarkError: whatever ended the run; the merged checkpoint is restored, or the log says
            that the next open has to.
    """
    run_id = f"cli/{uuid4()}"
    with region_of(pipeline, connections) as region:
        if TAKE_OVER not in overrides:
            _let_the_dead_leave(region)
    open_run(pipeline, connections, run_id=run_id, bounds=bounds, overrides=overrides)
    try:
        drain_run(pipeline, connections, run_id=run_id, member_name="cli", executor_of=executor_of)
        return close_run(pipeline, connections, run_id=run_id)
    except Fenced:
        raise
    except BaseException as error:
        _give_up(pipeline, connections, run_id, error)
        raise


def _let_the_dead_leave(region: Region) -> None:
    """Nobody holds partitions in the group.

    A member that was killed looks like one that lives until its session ends: so long is waited.

    Raises:
        Refused: somebody still holds partitions then.
    """
    seconds = region.pipeline.kafka.session_seconds + EVICTION_SECONDS
    deadline = time.monotonic() + seconds
    while holders := _holders(region):
        at_work = f"another run is at work in group {region.group.group_id}: {holders}"
        if time.monotonic() > deadline:
            raise Refused(
                f"region {region.name}: {at_work}. Wait for it, or take over with --take-over,"
                " which fences it"
            )
        log.warning(
            "region %s: %s. If it was killed, it leaves the group by itself: waiting up to %.0f s",
            region.name,
            at_work,
            deadline - time.monotonic(),
        )
        time.sleep(LEAVE_PAUSE)


def _holders(region: Region) -> str:
    """Who holds partitions; one without may be on its way out: it left before it had joined."""
    return "; ".join(str(holder) for holder in region.group.holders() if holder.partitions)


def _give_up(
    pipeline: Pipeline, connections: Connections, run_id: str, error: BaseException
) -> None:
    """The ledger says why the run failed, and the region is reset.

    Best effort, for the run's own error must be heard: the next open does what is left.
    """
    why = f"ended with {error.code if isinstance(error, TidemarkError) else type(error).__name__}"
    try:
        with region_of(pipeline, connections) as region:
            fail(region.ledger, region.name, run_id, why)
        reset_region(
            pipeline, connections, run_id=run_id, apply=True, who="cli", why=f"{run_id} {why}"
        )
    except TidemarkError as failed:
        log.warning(
            "region %s was not reset, the next run does it: %s: %s",
            pipeline.region,
            failed.code,
            failed,
        )


def _closed(region: Region, run_id: str) -> Closed:
    try:
        return waited_out(
            lambda: close(region.ledger, region.group, region.name, run_id),
            region.pipeline.no_progress_seconds,
        )
    except Unreachable as error:
        fail(region.ledger, region.name, run_id, str(error))
        raise


def _opened(region: Region, epoch: int, facts: Facts) -> Opened:
    offsets = region.ledger.merged_checkpoint(region.name).offsets
    run = region.ledger.run_at(region.name, epoch)
    remarks = tuple(run.remarks) if run else ()
    for remark in remarks:
        log.warning("region %s: %s", region.name, remark)
    return Opened(epoch, backlog(offsets, facts.ends), facts.ends, remarks)


def _member(region: Region, topics: Sequence[str], number: int, slot: int) -> Member:
    kafka, group = region.pipeline.kafka, region.pipeline.group
    membership = kafka.membership(static_name(group, slot))
    return Member(region.kafka, group, topics, client_id_of(region.name, number), membership)
