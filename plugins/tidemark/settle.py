"""Settle a region: fence everyone, discard what is not published, mirror what is.

Open, reset and (later) rewind are this one function with different intents.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol
from uuid import UUID, uuid4

from tidemark import failpoints
from tidemark.bounds import Bounds
from tidemark.errors import OutcomeUnknown, Superseded, Unreachable
from tidemark.facts import (
    Facts,
    backlog,
    check_cluster,
    check_retained,
    check_topic_ids,
    unknown_partitions,
)
from tidemark.mirror import Group, mirror
from tidemark.mirror import Ledger as MirroredLedger
from tidemark.offsets import Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class RegionState:
    """A region's row: its fencing number and where its head stands."""

    region: str
    epoch: int
    head_seq: int
    next_seq: int
    cluster_id: str
    group_id: str
    target: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the ledger knows it; offsets are the next to read."""

    topic_id: str
    initial_offset: int
    next_offset: int
    seq: int


@dataclass(frozen=True, slots=True)
class Run:
    """One epoch's work as the ledger knows it."""

    region: str
    epoch: int
    run_id: str
    state: str
    max_records: int
    max_batches: int | None
    max_seconds: int | None
    backlog: int
    bound: str | None
    reason: str | None
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A reset: by hand without run_id, by the DAG for the run that it names."""

    who: str
    why: str
    run_id: str | None = None
    epoch: int | None = None
    uuid: UUID = field(default_factory=uuid4)

    kind: ClassVar[str] = "resetting"

    def check(self, tx: "Settling") -> None:
        """Do nothing where another epoch holds the region."""
        if self.epoch is not None and tx.state.epoch != self.epoch:
            raise Superseded(
                f"region {tx.state.region}: the run's epoch {self.epoch} has passed, the region is"
                f" at {tx.state.epoch}; there is nothing left to reset"
            )

    def write(self, tx: "Settling", epoch: int, discarded: int | None) -> None:
        """Leave the audit row."""
        tx.write_reset(epoch, self, discarded)


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open: a run with its bounds, and the Kafka facts seen just before."""

    run_id: str
    bounds: Bounds
    facts: Facts
    overrides: tuple[str, ...] = ()
    uuid: UUID = field(default_factory=uuid4)

    kind: ClassVar[str] = "opening"

    def check(self, tx: "Settling") -> None:
        """Stop where Kafka no longer holds what the ledger needs."""
        known, region = tx.partitions(), tx.state.region
        check_cluster(region, tx.state.cluster_id, self.facts)
        check_topic_ids(region, ((tp.topic, p.topic_id) for tp, p in known.items()), self.facts)
        check_retained(region, {tp: p.next_offset for tp, p in known.items()}, self.facts)

    def write(self, tx: "Settling", epoch: int, discarded: int | None) -> None:
        """Write initial offsets, the run and its target offsets."""
        known = tx.partitions()
        # Partitions that appear later start at the beginning, whatever the start position was.
        positions = self.facts.log_starts if known else self.facts.starts
        initial = {tp: positions[tp] for tp in unknown_partitions(known, self.facts)}
        tx.write_initial_offsets(initial, self.facts.topic_ids)
        next_offsets = {tp: partition.next_offset for tp, partition in known.items()} | initial
        to_read = backlog(next_offsets, self.facts.ends)
        tx.write_run(
            epoch, self.run_id, self.uuid, self.bounds, self.facts.ends, to_read, [*self.overrides]
        )


class Settling(Protocol):
    """A ledger transaction that holds the region lock and may take the next epoch."""

    state: RegionState

    def partitions(self) -> dict[TopicPartition, Partition]: ...  # noqa: D102
    def take_epoch(self) -> int: ...  # noqa: D102
    def discard_unpublished_batch(self) -> int | None: ...  # noqa: D102
    def write_initial_offsets(self, initial: Offsets, topic_ids: dict[str, str]) -> None: ...  # noqa: D102
    def write_run(  # noqa: D102
        self,
        epoch: int,
        run_id: str,
        opening: UUID,
        bounds: Bounds,
        targets: Offsets,
        backlog: int,
        overrides: list[str],
    ) -> None: ...
    def write_reset(self, epoch: int, request: ResetRequest, discarded: int | None) -> None: ...  # noqa: D102


class Ledger(MirroredLedger, Protocol):
    """Where epochs are taken."""

    def settling(self, region: str, name: str) -> AbstractContextManager[Settling]: ...  # noqa: D102
    def find_settled(self, kind: str, uuid: UUID, region: str) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Settled:
    """The epoch that was taken and what it discarded."""

    epoch: int
    discarded_seq: int | None = None


def settle(
    ledger: Ledger, group: Group, region: str, request: OpenRequest | ResetRequest
) -> Settled:
    """The region has a new epoch, nothing unpublished, and Kafka equals the ledger.

    1. one transaction: check, epoch+1 by compare-and-set, discard, write what the request is for
    2. mirror under the new epoch
    Idempotent in effect; safe beside zombies, which are fenced by 1, and beside another settle.

    If it crashes: before COMMIT nothing stands; after it the next settle or close mirrors.

    Raises:
        Superseded: the request names an epoch that has passed.
        DataLost: an open, and Kafka no longer holds what the ledger needs.
        Fenced: another settle took the region between 1 and 2.
    """
    name = "open" if isinstance(request, OpenRequest) else "reset"
    failpoints.hit(f"{name}.before")
    settled = _decide(ledger, region, request, name)
    failpoints.hit(f"{name}.decided")
    mirror(ledger, group, region, settled.epoch)
    failpoints.hit(f"{name}.after")
    return settled


def _decide(ledger: Ledger, region: str, request: OpenRequest | ResetRequest, name: str) -> Settled:
    try:
        with ledger.settling(region, name) as tx:
            request.check(tx)
            epoch = tx.take_epoch()
            discarded = tx.discard_unpublished_batch()
            request.write(tx, epoch, discarded)
            failpoints.hit(f"{name}.inside")
        return Settled(epoch, discarded)
    except OutcomeUnknown as error:
        found = ledger.find_settled(request.kind, request.uuid, region)
        if found is None:
            raise Unreachable(f"region {region}: {error}; it did not happen, try again") from error
        return Settled(found)
