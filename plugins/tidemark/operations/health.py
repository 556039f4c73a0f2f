"""The health of a region's group: who is in it, who holds what, and who holds things up."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidemark.model.offsets import TopicPartition
from tidemark.operations.status import PartitionStatus, in_ledger, place, total, with_kafka

if TYPE_CHECKING:
    from tidemark.kafka.holders import GroupState, Holder
    from tidemark.ledger.looks import ShownMember
    from tidemark.operations.region import Region

ENDED = ("done", "failed", "reset complete")
"""States after which a member leaves the group."""


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """One who is in the group by Kafka's word, or in the run by the ledger's, or both."""

    kind: str
    """member of the current epoch; static: one of the region's names, held by some member of it;
    earlier: of an epoch that has passed; foreign: none of them."""
    number: int | None
    name: str | None
    state: str | None
    """What it told the ledger last; None if it is not of this epoch."""
    in_group: bool
    partitions: tuple[str, ...]
    """What Kafka says that it holds."""
    drain_ms: int | None = None
    drain_ms_max: int | None = None
    seen_at: datetime | None = None
    """When what it tells the ledger last changed."""
    seen_age_s: int | None = None
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it drains what it holds."""
        return self.kind in ("member", "static")

    @property
    def label(self) -> str:
        """How it is named in a sentence."""
        if self.kind == "member":
            return f"member {self.number} ({self.name})"
        return f"{self.instance_id or self.client_id} on {(self.host or '').lstrip('/')}"


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Who holds the unpublished batch up: the holder of unclaimed spans that moved longest ago."""

    by: str | None
    """None: nobody holds those partitions."""
    kind: str | None
    partitions: tuple[str, ...]
    since: datetime
    seconds: int


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
    """Spans of the unpublished batch that nobody has contributed."""
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
    def drifting(self) -> int:
        """Partitions whose offset in Kafka is not the ledger's."""
        return sum(one.drift != 0 for one in self.partitions)


def health_of(region: "Region") -> GroupHealth:
    """The group as Kafka and the ledger tell it now; a region that never opened has only Kafka's.

    Raises:
        TidemarkError: one of the two can't be asked.
    """
    found, group = in_ledger(region), region.group.describe()
    batch = region.ledger.unpublished_batch(region.name) if found.epoch is not None else None
    unclaimed = [planned.span for planned in batch.unclaimed] if batch else []
    members = members_of(group, found.members, region.name, region.group.group_id)
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


def members_of(
    group: "GroupState", shown: "tuple[ShownMember, ...]", region: str, group_id: str
) -> list[MemberHealth]:
    """Those of the ledger first, in their order, then the others that are in the group."""
    known = [(_number(holder, shown, region, group_id), holder) for holder in group.holders]
    holders = dict(known)
    return [
        *(_of_ledger(member, holders.get(member.number)) for member in shown),
        *(_other(holder, region, group_id) for number, holder in known if number is None),
    ]


def held_up(
    members: list[MemberHealth],
    waiting: set[TopicPartition],
    last_move: datetime,
    now: datetime,
) -> HeldUp:
    """The holder of a waiting partition whose last progress is the oldest.

    One that is not of the run never drains: it has made no progress since the run's last move.
    """
    names = {place(partition) for partition in waiting}
    holding = [one for one in members if names & {*one.partitions}]
    if not holding:
        return HeldUp(None, None, tuple(sorted(names)), last_move, _age(last_move, now))
    worst = min(holding, key=lambda one: (one.is_ours, one.seen_at or last_move))
    since = worst.seen_at or last_move
    held = tuple(sorted(names & {*worst.partitions}))
    return HeldUp(worst.label, worst.kind, held, since, _age(since, now))


def _of_ledger(member: "ShownMember", holder: "Holder | None") -> MemberHealth:
    return MemberHealth(
        "member",
        member.number,
        member.name,
        member.state,
        holder is not None,
        tuple(map(str, holder.partitions)) if holder else (),
        member.drain_ms,
        member.drain_ms_max,
        member.seen_at,
        int(member.age),
        holder.client_id if holder else None,
        holder.host if holder else None,
        holder.instance_id if holder else None,
    )


def _number(
    holder: "Holder", shown: "tuple[ShownMember, ...]", region: str, group_id: str
) -> int | None:
    """Which member of the epoch it is.

    Kafka shows a static member's first client id for ever, so one is known by what it holds.
    """
    if holder.is_static(group_id):
        held = {*map(str, holder.partitions)}
        same = [
            m.number for m in shown if held and {*m.partitions} == held and m.state not in ENDED
        ]
        if same:
            return same[-1]
    number = holder.number(region)
    return number if number in {member.number for member in shown} else None


def _other(holder: "Holder", region: str, group_id: str) -> MemberHealth:
    number = holder.number(region)
    kind = "foreign" if number is None else "earlier"
    return MemberHealth(
        "static" if holder.is_static(group_id) else kind,
        number,
        None,
        None,
        True,
        tuple(map(str, holder.partitions)),
        client_id=holder.client_id,
        host=holder.host,
        instance_id=holder.instance_id,
    )


def _clock(region: "Region", epoch: int | None) -> tuple[datetime, datetime]:
    """When the run published last, or opened; and what time it is: both by the server's clock."""
    from tidemark.ledger.looks import Looks

    looks = Looks(region.ledger.engine)
    moves = [one.published_at for one in looks.checkpoints(region.name, 1)]
    run = region.ledger.run_at(region.name, epoch) if epoch is not None else None
    moves += [run.opened_at] if run else []
    now = looks.now()
    return max(moves, default=now), now


def _age(moment: datetime, now: datetime) -> int:
    return max(0, int((now - moment).total_seconds()))
