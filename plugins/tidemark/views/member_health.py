"""Who is in a region's group: by Kafka's word, by the ledger's, or by both."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.kafka.description import GroupState, Holder
    from tidemark.ledger.looks import ShownMember


GONE = "gone"
"""The state of a member that ended without a word: its run is over, and Kafka knows it no more."""

ENDED = ("done", "failed", "reset complete", GONE)
"""States of a member that is at work no more."""


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """One who is in the group by Kafka's word, or in the run by the ledger's, or both."""

    kind: str
    """member of the current epoch; static: one of the region's names, held by some member of it;
    earlier: of an epoch that has passed; foreign: none of them."""
    number: int | None
    name: str | None
    state: str | None
    """What it told the ledger last, or gone; None if it is not of this epoch."""
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


def members_of(
    group: "GroupState",
    shown: "tuple[ShownMember, ...]",
    region: str,
    group_id: str,
    *,
    is_open: bool,
) -> list[MemberHealth]:
    """Those of the ledger first, in their order, then the others that are in the group.

    `is_open` says whether their run is.
    """
    known = [(_number(holder, shown, region, group_id), holder) for holder in group.holders]
    holders = dict(known)
    return [
        *(_of_ledger(member, holders.get(member.number), is_open=is_open) for member in shown),
        *(_other(holder, region, group_id) for number, holder in known if number is None),
    ]


def _of_ledger(member: "ShownMember", holder: "Holder | None", *, is_open: bool) -> MemberHealth:
    is_as_told = is_open or holder is not None or member.state in ENDED
    return MemberHealth(
        "member",
        member.number,
        member.name,
        member.state if is_as_told else GONE,
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
