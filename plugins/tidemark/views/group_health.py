"""The health of a region's group: who is in it, who holds what, and who holds things up."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidemark.model.offsets import TopicPartition
from tidemark.model.plain import age
from tidemark.views.status import (
    MemberHealth,
    PartitionStatus,
    brief,
    drifting,
    in_ledger,
    members_of,
    total,
    with_kafka,
)

if TYPE_CHECKING:
    from tidemark.runs.region import Region


FOREIGN = "FOREIGN, no member of the region; stop it, or give the region a kafka.group of its own"
"""Of a consumer that holds partitions and drains none."""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Who delays the batch: holds unclaimed spans, and made no progress for the longest time."""

    by: str | None
    """None: nobody holds those partitions."""
    kind: str | None
    partitions: tuple[str, ...]
    since: datetime
    seconds: int

    def __str__(self) -> str:
        where, long = brief(self.partitions), age(self.seconds)
        if self.by is None:
            return f"{where}: nobody holds them, for {long}"
        return f"{self.by}, which holds {where}, for {long}"


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """A region's consumer group beside its ledger."""

    region: str
    group: str
    state: str
    protocol: str
    assignor: str
    coordinator: str
    epoch: int | None
    run_id: str | None
    run_state: str
    members: tuple[MemberHealth, ...]
    partitions: tuple[PartitionStatus, ...]
    unpublished_seq: int | None
    unclaimed: tuple[str, ...]
    """Spans of the lowest unpublished batch that nobody has contributed."""
    held_up: HeldUp | None
    """None while no span is unclaimed."""

    @property
    def lag(self) -> int | None:
        """Offsets that the ledger has not passed."""
        return total(one.lag for one in self.partitions)

    @property
    def kafka_lag(self) -> int | None:
        """Offsets that the group has not passed, as Kafka's own tools tell it."""
        return total(one.kafka_lag for one in self.partitions)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Who is in the group and no member of the region."""
        return tuple(one.label for one in self.members if one.kind == "foreign")

    @property
    def waits(self) -> str:
        """What the region waits for, in a sentence."""
        if self.held_up is not None:
            return f"batch {self.unpublished_seq} waits for {self.held_up}"
        if self.unpublished_seq is not None:
            return f"batch {self.unpublished_seq}: all spans are claimed"
        return "nothing is waiting: no batch is unpublished"

    @property
    def drifting(self) -> int:
        """Partitions whose offset in Kafka is not the ledger's."""
        return drifting(self.partitions)


def health_of(region: "Region") -> GroupHealth:
    """The group as Kafka and the ledger tell it now; a region that never opened has only Kafka's.

    Raises:
        TidemarkError: one of the two can't be asked.
    """
    found, group = in_ledger(region), region.group.describe()
    batches = region.ledger.unpublished_batches(region.name) if found.epoch is not None else ()
    unclaimed = [planned.span for batch in batches[:1] for planned in batch.unclaimed]
    members = members_of(
        group, found.members, region.name, region.group.group_id, is_open=found.is_open
    )
    waiting = {span.topic_partition for span in unclaimed}
    return GroupHealth(
        region=region.name,
        group=region.group.group_id,
        state=group.state,
        protocol=group.protocol,
        assignor=group.assignor,
        coordinator=group.coordinator,
        epoch=found.epoch,
        run_id=found.run_id,
        run_state=found.state,
        members=tuple(members),
        partitions=tuple(with_kafka(region, found.partitions)),
        unpublished_seq=found.unpublished_seq,
        unclaimed=tuple(map(str, unclaimed)),
        held_up=held_up(members, waiting, *_clock(region, found.epoch)) if waiting else None,
    )


def held_up(
    members: list[MemberHealth],
    waiting: set[TopicPartition],
    last_move: datetime,
    now: datetime,
) -> HeldUp:
    """The holder of a waiting partition whose last progress is the oldest.

    One that is not of the run never drains: it has made no progress since the run's last move.
    """
    names = {str(partition) for partition in waiting}
    holding = [one for one in members if names & {*one.partitions}]
    if not holding:
        return HeldUp(
            by=None,
            kind=None,
            partitions=tuple(sorted(names)),
            since=last_move,
            seconds=_age(last_move, now),
        )
    worst = min(holding, key=lambda one: (one.is_ours, one.seen_at or last_move))
    since = worst.seen_at or last_move
    held = tuple(sorted(names & {*worst.partitions}))
    return HeldUp(
        by=worst.label, kind=worst.kind, partitions=held, since=since, seconds=_age(since, now)
    )


def _clock(region: "Region", epoch: int | None) -> tuple[datetime, datetime]:
    """When the run published last, or opened; and what time it is: both by the server's clock."""
    queries = region.ledger.queries
    moves = [one.published_at for one in queries.checkpoints(region.name, 1)]
    run = region.ledger.run_at(region.name, epoch) if epoch is not None else None
    moves += [run.opened_at] if run else []
    now = queries.now()
    return max(moves, default=now), now


def _age(moment: datetime, now: datetime) -> int:
    return max(0, int((now - moment).total_seconds()))
