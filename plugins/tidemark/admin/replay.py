"""Replays from outside: dead letters become rows.

A request is refused before anything is made; the work is an epoch, a job, and what it leaves; a
report says what was done, or would be.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from uuid import uuid4

from tidemark.admin.errors import ReplayedRowRefused, ReplayOfUpserts
from tidemark.admin.replay_report import ReplayReport
from tidemark.errors import (
    InvalidSettings,
    Refused,
    SchemaMismatch,
    Superseded,
    TargetRefused,
    TidemarkError,
    TransformFailed,
)
from tidemark.ledger import removing
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import KeptDeadLetter, replayable
from tidemark.model.batch import Batch, Contribution
from tidemark.model.dead_letters import DeadLetterFilter, Replayed
from tidemark.model.state import NEVER_MIRRORED, Mirrored, RegionState
from tidemark.postgres.transaction import transaction
from tidemark.protocol.mirror import mirror
from tidemark.protocol.output import refuse_other_output
from tidemark.protocol.replay import ReplayRequest, plan_replay, publish_replay
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import settle
from tidemark.runs.fit import known_schemas, would_fit
from tidemark.runs.job import Job
from tidemark.runs.member import ExecutorOf, job_of
from tidemark.runs.region import Region, mirror_seen, region_of, topics_gone
from tidemark.runs.retire import retire
from tidemark.runs.targets import writers_of
from tidemark.settings.endpoints import Connections
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.replay import ReplayWriters
from tidemark.staging.tables import whole_reads

log = logging.getLogger(__name__)


Decode = Callable[[list[KeptDeadLetter]], tuple[int, Counter[str]]]
"""Gives how many can be decoded, and why the others can't be."""

BLOCK = 500
"""Dead letters that a dry run decodes together."""


def dry_run(region: Region, meant: DeadLetterFilter, limit: int) -> ReplayReport:
    """Decode what would be chosen; the transform is not run."""
    state, decode = region.state(), _decoding(region)
    good, failing = 0, Counter[str]()
    with replayable(region.ledger.engine, region.name, meant, limit) as (found, raw):
        while some := list(islice(found.dead_letters, BLOCK)):
            rows, reasons = decode(some)
            good, failing = good + rows, failing + reasons
    return ReplayReport(
        region=region.name,
        applied=False,
        epoch=state.epoch,
        head_seq=state.head_seq,
        chosen=found.count,
        replayed=good,
        kept=dict(failing),
        not_kept_raw=raw,
    )


def _decoding(region: Region) -> Decode:
    from tidemark.spark.dead_letter_records import record_of
    from tidemark.spark.record_decoder import RecordDecoder
    from tidemark.spark.records import decode_block

    spec = region.job_spec().reading
    decoder, schema = RecordDecoder(spec.decoding), spec.schema

    def decoded(dead_letters: list[KeptDeadLetter]) -> tuple[int, Counter[str]]:
        rows, rejected = decode_block(
            decoder, [record_of(one, spec.kafka) for one in dead_letters], schema
        )
        return rows.num_rows, Counter(str(one.reason) for one in rejected)

    return decoded


def replay_request(
    region: Region,
    state: RegionState,
    who: str,
    why: str,
    mirrored: Mirrored = NEVER_MIRRORED,
    gone: frozenset[str] = frozenset(),
) -> ReplayRequest:
    """A replay into the region's targets, of the region as it was looked at."""
    return ReplayRequest(
        who=who,
        why=why,
        epoch=state.epoch,
        mirrored=mirrored,
        gone=gone,
        targets=region.pipeline.tables,
        fingerprint=fingerprint(region.pipeline),
    )


def check(region: Region, state: RegionState, request: ReplayRequest) -> None:
    """Refuse before anything is made or written; the replay's own transaction decides.

    Raises:
        Superseded, Refused: see `removing.at_rest`, `ReplayRequest.check`, and what the mirror
            behind it refuses, `refuse_other_output`.
    """
    with region.ledger.settling(region.name, "look") as tx:
        removing.at_rest(tx.cursor, state)
        request.check(tx)
    refuse_other_output(region.ledger.merged_checkpoint(region.name), region.group.output)


def refusal(region: Region) -> str | None:
    """Why a replay would be refused now; None if nothing is known that would."""
    state = region.state()
    try:
        check(region, state, replay_request(region, state, "", ""))
        schemas = known_schemas(region.job_spec())
        if schemas is not None:
            would_fit(region.ledger.engine, writers_of(region.pipeline, schemas))
    except (Refused, Superseded, InvalidSettings, SchemaMismatch, TransformFailed) as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that holds the region: everybody else is fenced, and nothing is unpublished."""

    region: Region
    epoch: int
    member: int
    job: Job

    @property
    def target_writers(self) -> ReplayWriters:
        """Of its rows: one that a target refuses ends the replay."""
        return ReplayWriters(
            tuple(
                replace(m, refused_become_dead_letters=False)
                for m in self.job.target_writers.writers
            )
        )

    def staged(self, batch: Batch) -> Contribution:
        """Drain the batch into its staging tables.

        Raises:
            IncompleteRead: not all of its records were read.
        """
        ledger, region = self.region.ledger, self.region
        with ledger.deciding(region.name, self.epoch, "staging") as tx:
            self.target_writers.create_staging(tx.cursor, batch, region.writer)
        spans = [planned.span for planned in batch.spans]
        winners = self.job.executor.drain(batch, spans)
        with transaction(ledger.engine, "reads") as cursor:
            transform = region.pipeline.transform
            reads = whole_reads(cursor, batch, self.member, spans, winners, transform)
        return Contribution.of(self.member, reads, winners)


@contextmanager
def replaying(region: Region, order: Order, executor_of: ExecutorOf) -> Iterator[Replay]:
    """A replay holds the region inside; afterwards the region is at rest, best effort.

    Raises:
        Refused: the region is not at rest, or rows would be made with other settings or go to other
            targets than those of the checkpoint. Then nothing was made or written.
        Superseded: another open or a reset came.
    """
    state = region.state()
    seen = mirror_seen(region, region.ledger.merged_checkpoint(region.name).offsets)
    gone = topics_gone(region, region.known_partitions())
    why = f"replay of dead letters: {order.why}"
    request = replay_request(region, state, order.who, why, seen.mirrored, gone)
    check(region, state, request)
    number = region.ledger.register_member(region.name, state.epoch, uuid4(), "replay")
    with _shown(region, number):
        job = job_of(region, number, executor_of)
        try:
            epoch = settle(region.ledger, region.group, region.name, request).epoch
            region.ledger.finish_reset(region.name, epoch)
            with _given_up(region, epoch):
                yield Replay(region, epoch, number, job)
        finally:
            job.executor.close()
    _tidied(region, epoch, gone)


@contextmanager
def _shown(region: Region, number: int) -> Iterator[None]:
    """The member's state, for display."""
    try:
        yield
    except BaseException:
        with suppress(TidemarkError):
            region.ledger.show_member(number, "failed")
        raise
    region.ledger.show_member(number, "done")


@contextmanager
def _given_up(region: Region, epoch: int) -> Iterator[None]:
    """A replay that fails leaves the region at rest, if it can; else the next open does it."""
    try:
        yield
    except BaseException:
        with suppress(TidemarkError):
            request = ResetRequest("replay", "the replay failed", epoch=epoch)
            settled = settle(region.ledger, region.group, region.name, request)
            region.ledger.finish_reset(region.name, settled.epoch)
            retire(region.ledger.engine, region.name)
        raise


def _tidied(region: Region, epoch: int, gone: frozenset[str]) -> None:
    """Kafka's metadata name the new head, best effort; staging that is done with goes."""
    try:
        mirror(region.ledger, region.group, region.name, epoch, gone=gone)
    except TidemarkError as error:
        log.warning("the mirror is behind; the next open writes it again: %s", error)
    retire(region.ledger.engine, region.name)


def replay_dead_letters(
    pipeline: Pipeline,
    connections: Connections,
    meant: DeadLetterFilter,
    limit: int,
    order: Order | None,
    executor_of: ExecutorOf,
) -> ReplayReport:
    """Dead letters that can be decoded now are rows; without an order the report says which.

    If it crashes: the dead letters are as they were, or the batch is published whole.

    Raises:
        Refused: a target is upserted, the region is not at rest, or rows would be made with other
            settings than those of the checkpoint.
        Fenced, Superseded: another open or a reset came; nothing was published.
        TargetRefused: a constraint of the target refuses a row; nothing was published.
    """
    if any(target.upsert for target in pipeline.all_targets.values()):
        raise ReplayOfUpserts(region=pipeline.region)
    with region_of(pipeline, connections) as found:
        region = found.with_kept_columns()
        report = dry_run(region, meant, limit)
        if order is None:
            return replace(report, refused=refusal(region))
        if not report.chosen:
            return report
        return _replayed(region, meant, limit, order, executor_of, report)


def _replayed(
    region: Region,
    meant: DeadLetterFilter,
    limit: int,
    order: Order,
    executor_of: ExecutorOf,
    report: ReplayReport,
) -> ReplayReport:
    try:
        with replaying(region, order, executor_of) as replay:
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


def _published(replay: Replay, meant: DeadLetterFilter, limit: int) -> Replayed | None:
    """Plan, drain and publish; None where nothing is left to replay."""
    ledger = replay.region.ledger
    batch = plan_replay(ledger, replay.region.name, replay.epoch, meant, limit)
    if batch is None:
        return None
    return publish_replay(ledger, replay.target_writers, batch, replay.staged(batch))
