"""A replay at work, of dead letters or of a batch: its epoch, its job, and what it leaves."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from tidemark.errors import TidemarkError
from tidemark.ledger.actions import Order
from tidemark.member.job import Job, start_job
from tidemark.member.retire import retire
from tidemark.model.batch import Batch, Contribution
from tidemark.model.incomplete_read import refuse_unread
from tidemark.operations.drain import ExecutorOf
from tidemark.operations.errors import ReplayOfUpserts
from tidemark.operations.region import Connections, Region, mirror_seen, topics_gone
from tidemark.operations.replay_request import check, replay_request
from tidemark.postgres.transaction import transaction
from tidemark.protocol.mirror import mirror
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import settle
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.movers import Movers
from tidemark.staging.reads import complete_reads

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that holds the region: everybody else is fenced, and nothing is unpublished."""

    region: Region
    epoch: int
    member: int
    job: Job

    @property
    def movers(self) -> Movers:
        """Of its rows: one that a target refuses ends the replay."""
        return Movers(
            tuple(replace(m, refused_become_dead_letters=False) for m in self.job.movers.movers)
        )

    def staged(self, batch: Batch) -> Contribution:
        """Drain the batch into its staging tables.

        Raises:
            IncompleteRead: not all of its records were read.
        """
        ledger, region = self.region.ledger, self.region
        with ledger.deciding(region.name, self.epoch, "staging") as tx:
            self.movers.create_staging(tx.cursor, batch, region.writer)
        spans = [planned.span for planned in batch.spans]
        winners = self.job.executor.drain(batch, spans)
        with transaction(ledger.engine, "reads") as cursor:
            reads = complete_reads(cursor, batch.staging, self.member, spans)
        refuse_unread(batch, spans, reads, region.pipeline.transform)
        given = tuple(one for one in winners if any(one.rows.values()))
        return Contribution(self.member, reads, given)


def refuse_upserts(pipeline: Pipeline, of: Literal["dead letters", "batch"]) -> None:
    """Refuse a replay into targets that are upserted.

    Raises:
        Refused: one of them is.
    """
    if any(one.upsert for one in pipeline.all_targets.values()):
        raise ReplayOfUpserts(region=pipeline.region, of=of)


@contextmanager
def replaying(
    region: Region, connections: Connections, order: Order, what: str, executor_of: ExecutorOf
) -> Iterator[Replay]:
    """A replay holds the region inside; afterwards the region is at rest, best effort.

    Raises:
        Refused: the region is not at rest, or rows would be made with other settings or go to other
            targets than those of the checkpoint. Then nothing was made or written.
        Superseded: another open or a reset came.
    """
    state, pipeline = region.state(), region.pipeline
    seen = mirror_seen(region, region.ledger.merged_checkpoint(region.name).offsets)
    gone = topics_gone(region, region.known_partitions())
    why = f"replay of {what}: {order.why}"
    request = replay_request(region, state, order.who, why, seen.mirrored, gone)
    check(region, state, request)
    number = region.ledger.register_member(region.name, state.epoch, uuid4(), "replay")
    with _shown(region, number):
        job = start_job(pipeline, region.ledger, lambda: executor_of(pipeline, connections, number))
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
