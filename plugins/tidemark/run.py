"""A run from outside: open, drain, close, reset. Each is one Airflow task or one CLI step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from tidemark.bounds import Bounds
from tidemark.close import Closed, close
from tidemark.drain import Drain, Drained, JobExecutor
from tidemark.errors import Fenced, Refused, RunNotDone, Superseded, Unreachable
from tidemark.facts import backlog
from tidemark.kafka.member import Member
from tidemark.ledger.migrate import is_current, migrate
from tidemark.mirror import differences
from tidemark.offsets import Offsets
from tidemark.pipeline import Pipeline
from tidemark.region import Connections, Region, region_of, starting_facts
from tidemark.retire import retire
from tidemark.settle import OpenRequest, ResetRequest, settle

ExecutorOf = Callable[[Pipeline, Connections, int], JobExecutor]

TAKE_OVER = "take_over"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open run: its epoch and what there is to read, in offsets."""

    epoch: int
    backlog: int
    targets: Offsets


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What a reset did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    discards_seq: int | None
    offsets: Offsets
    drift: tuple[str, ...]


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

    Raises:
        Refused: the group has commits that the start position would pass over; see overrides.
        DataLost: Kafka no longer holds what the ledger needs.
    """
    with region_of(pipeline, connections) as region:
        if not is_current(region.ledger.engine):
            migrate(region.ledger.engine)
        facts = starting_facts(region, overrides)
        region.ledger.create_region(
            pipeline.region,
            group_id=pipeline.group,
            target=pipeline.target.table,
            cluster_id=facts.cluster_id,
        )
        request = OpenRequest(run_id, bounds, facts, tuple(overrides))
        settled = settle(region.ledger, region.group, pipeline.region, request)
        offsets = region.ledger.merged_checkpoint(pipeline.region).offsets
        return Opened(settled.epoch, backlog(offsets, facts.ends), facts.ends)


def drain_run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str,
    member_name: str,
    executor_of: ExecutorOf,
) -> Drained:
    """One member has worked until the ledger says that the run is done.

    Raises:
        RunNotDone: the run never opened.
        TidemarkError: see errors.py; the exit code says whether a retry may help.
    """
    with region_of(pipeline, connections) as region:
        run = region.ledger.run_of(region.name, run_id)
        if run is None:
            raise RunNotDone(f"region {region.name}: run {run_id} is not open; open it first")
        number = region.ledger.register_member(region.name, run.epoch, uuid4(), member_name)
        client_id = f"tidemark-{region.name}-{number}"
        topics = pipeline.kafka.topics
        with Member(region.kafka, pipeline.group, topics, client_id) as member:
            return Drain(
                pipeline,
                run.epoch,
                number,
                region.ledger,
                region.broker,
                region.group,
                member,
                lambda: executor_of(pipeline, connections, number),
            ).work()


def close_run(pipeline: Pipeline, connections: Connections, *, run_id: str) -> Closed:
    """The ledger says that the run is done, Kafka reads back equal, old staging is dropped.

    Raises:
        RunNotDone: it is not; the text says why.
        Fenced: another run or a reset holds the region.
    """
    with region_of(pipeline, connections) as region:
        closed = close(region.ledger, region.group, region.name, run_id)
        retire(region.ledger.engine, region.name)
        return closed


def reset_run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str | None,
    apply: bool,
    who: str,
    why: str,
) -> ResetReport:
    """Everyone is fenced, nothing is unpublished, Kafka equals the ledger; or what that would do.

    With run_id it resets only if that run's epoch still holds the region. A dry run
    (apply=False) writes nothing to Postgres or Kafka.

    Raises:
        Superseded: another epoch holds the region; nothing was done.
    """
    with region_of(pipeline, connections) as region:
        report = _dry_run(region)
        if not apply:
            return report
        run = region.ledger.run_of(region.name, run_id) if run_id else None
        if run_id and run is None:
            raise Superseded(f"region {region.name}: run {run_id} never opened; nothing to reset")
        request = ResetRequest(who, why, run_id, run.epoch if run else None)
        settled = settle(region.ledger, region.group, region.name, request)
        region.ledger.finish_reset(region.name, settled.epoch)
        retire(region.ledger.engine, region.name)
        return replace(
            report, applied=True, epoch=settled.epoch, discards_seq=settled.discarded_seq
        )


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
        Refused: members of another run are in the group; see overrides.
        TidemarkError: whatever ended the run; the merged checkpoint is restored.
    """
    run_id = f"cli/{uuid4()}"
    with region_of(pipeline, connections) as region:
        holders = region.group.holders()
        if holders and TAKE_OVER not in overrides:
            raise Refused(
                f"region {region.name}: another run is at work in group {pipeline.group}:"
                f" {'; '.join(map(str, holders))}. Wait for it, or take over with --take-over,"
                " which fences it"
            )
    open_run(pipeline, connections, run_id=run_id, bounds=bounds, overrides=overrides)
    try:
        drain_run(pipeline, connections, run_id=run_id, member_name="cli", executor_of=executor_of)
        return close_run(pipeline, connections, run_id=run_id)
    except Fenced:
        raise
    except BaseException as error:
        why = f"{run_id} ended with {type(error).__name__}"
        reset_run(pipeline, connections, run_id=run_id, apply=True, who="cli", why=why)
        raise


def _dry_run(region: Region) -> ResetReport:
    state = region.ledger.region_state(region.name)
    if state is None:
        raise Refused(f"region {region.name} is not in the ledger: it appears with its first run")
    checkpoint = region.ledger.merged_checkpoint(region.name)
    return ResetReport(
        region=region.name,
        applied=False,
        epoch=state.epoch,
        head_seq=state.head_seq,
        discards_seq=region.ledger.unpublished_seq(region.name),
        offsets=checkpoint.offsets,
        drift=tuple(_drift(region, checkpoint.offsets)),
    )


def _drift(region: Region, offsets: Offsets) -> list[str]:
    """How Kafka differs; a mirror that died in its commit hides that, and must not stop a reset."""
    try:
        return differences(offsets, region.group.committed(offsets))
    except Unreachable as error:
        return [str(error)]
