"""How a member takes part in its consumer group: what the settings choose, in Kafka's words."""

from dataclasses import dataclass
from enum import StrEnum


class GroupProtocol(StrEnum):
    """Who shares the partitions: a member that leads the group, or the broker (KIP-848)."""

    classic = "classic"
    consumer = "consumer"


class Strategy(StrEnum):
    """How the leader of a classic group shares partitions."""

    range = "range"
    roundrobin = "roundrobin"
    cooperative_sticky = "cooperative-sticky"


DEFAULT_ASSIGNMENT = (Strategy.cooperative_sticky,)
MOST_MEMBERS = 1000
SESSION_TIMEOUT_SECONDS = 10
BROKERS_SESSION_SECONDS = 45
"""What a broker gives a group of the group_protocol consumer, unless it was told otherwise."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The choices of one member. Assignment, session and name belong to classic groups only."""

    group_protocol: GroupProtocol = GroupProtocol.classic
    assignment_strategy: tuple[Strategy, ...] = DEFAULT_ASSIGNMENT
    session_timeout_ms: int = SESSION_TIMEOUT_SECONDS * 1000
    instance_id: str | None = None
    """Name of a static member: who returns under it in time takes its partitions back."""
    poll_interval_ms: int = 300_000
    """How long the member's own thread may hang before the member leaves the group."""

    @property
    def is_incremental(self) -> bool:
        """Whether a rebalance tells what changes, and leaves the rest of the partitions alone."""
        return (
            self.group_protocol is GroupProtocol.consumer
            or Strategy.cooperative_sticky in self.assignment_strategy
        )


def refuse_impossible(
    group_protocol: GroupProtocol,
    assignment_strategy: tuple[Strategy, ...],
    classic_only: list[str],
) -> None:
    """Refuse what librdkafka cannot do; `classic_only` names the settings only a classic group has.

    Raises:
        ValueError: says what is possible instead.
    """
    if group_protocol is GroupProtocol.consumer and classic_only:
        raise ValueError(
            f"group_protocol consumer does not allow {', '.join(classic_only)}: with it the"
            " broker shares the partitions and sets session time-outs, and no member is static."
            f" Remove {'it' if len(classic_only) == 1 else 'them'}, or use group_protocol: classic"
        )
    if Strategy.cooperative_sticky in assignment_strategy and len(set(assignment_strategy)) > 1:
        raise ValueError(
            f"assignment_strategy {', '.join(assignment_strategy)} cannot be mixed: librdkafka"
            " changes members one by one between range and roundrobin only (list both, then the new"
            " one alone); to or from cooperative-sticky, change all members at once, between two"
            " runs"
        )
