"""The consumer group as Kafka describes it: its state, and who holds what."""

from dataclasses import dataclass
from typing import Any

from tidemark.kafka.names import is_static_name, number_in
from tidemark.model.offsets import TopicPartition, in_ranges


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of the group as Kafka knows it."""

    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    member_id: str = ""
    instance_id: str | None = None

    def number(self, region: str) -> int | None:
        """The ledger's number of this member of the region; None of a foreign consumer.

        Kafka keeps the client id that a static member first joined with: one that came back
        within its session bears its predecessor's number.
        """
        return number_in(self.client_id, region)

    def is_static(self, group_id: str) -> bool:
        """Whether it bears one of the static names of the group's own members."""
        return is_static_name(self.instance_id, group_id)

    def __str__(self) -> str:
        return f"{self.client_id} on {self.host} holds {in_ranges(self.partitions) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class GroupState:
    """A consumer group at one moment; of a dead one Kafka knows nothing else."""

    state: str
    """dead | empty | assigning | reconciling | preparing_rebalancing | completing_rebalancing |
    stable, as Kafka calls them."""
    protocol: str = ""
    assignor: str = ""
    coordinator: str = ""
    holders: tuple[Holder, ...] = ()
    granted: tuple[str, ...] = ()
    """What the asker may do with the group; empty where the broker does not say."""


DEAD = GroupState("dead")


def group_state(described: Any) -> GroupState:
    """The group of an admin client's description; dead if there is none."""
    if described is None:
        return DEAD
    node = described.coordinator
    return GroupState(
        described.state.name.lower(),
        described.type.name.lower(),
        described.partition_assignor or "",
        f"{node.host}:{node.port}" if node else "",
        tuple(_holder(member) for member in described.members),
        tuple(one.name for one in described.authorized_operations or ()),
    )


def _holder(member: Any) -> Holder:
    held = member.assignment.topic_partitions if member.assignment else []
    return Holder(
        member.client_id,
        member.host,
        tuple(TopicPartition(p.topic, p.partition) for p in held),
        member.member_id,
        member.group_instance_id or None,
    )
