"""Asking for the state of a consumer group, in a process of its own, which may die of the question.

librdkafka aborts its process when brokers come back after a request to a group's coordinator has
timed out (librdkafka's issue 4605; 2.16 still does): the request is given back twice. No caller can
catch that. Requests to other brokers have no such path: they are asked in the driver's own process.

The answer says who holds what. A member's name in Kafka is written by its driver and read here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from tidemark.environment import for_python
from tidemark.errors import TidemarkError, error_as_dict, error_from_dict
from tidemark.kafka.admin import SECONDS, Admin, request
from tidemark.kafka.errors import BrokersSilent, GroupDescriptionDied
from tidemark.model.offsets import TopicPartition, in_ranges


def client_id_of(region: str, number: int | str) -> str:
    """The client id of the member with this number of the ledger."""
    return f"tidemark-{region}-{number}"


def transactional_id_of(group_id: str) -> str:
    """The ONE transactional.id of a group's mirror writers: a newer one fences every older one."""
    return f"tidemark-{group_id}"


def static_name(group_id: str, slot: int | str) -> str:
    """The name under which the member of a slot (from 1) returns where membership is static."""
    return f"{group_id}-{slot}"


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
        number = self.client_id.removeprefix(client_id_of(region, ""))
        is_ours = number != self.client_id and number.isascii() and number.isdecimal()
        return int(number) if is_ours else None

    def is_static(self, group_id: str) -> bool:
        """Whether it bears one of the static names of the group's own members."""
        return (self.instance_id or "").startswith(static_name(group_id, ""))

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
        state=described.state.name.lower(),
        protocol=described.type.name.lower(),
        assignor=described.partition_assignor or "",
        coordinator=f"{node.host}:{node.port}" if node else "",
        holders=tuple(_holder(member) for member in described.members),
        granted=tuple(one.name for one in described.authorized_operations or ()),
    )


def _holder(member: Any) -> Holder:
    held = member.assignment.topic_partitions if member.assignment else []
    return Holder(
        client_id=member.client_id,
        host=member.host,
        partitions=tuple(TopicPartition(p.topic, p.partition) for p in held),
        member_id=member.member_id,
        instance_id=member.group_instance_id or None,
    )


CHILD = (sys.executable, "-P", "-m", "tidemark.kafka.description")
LONGEST_SECONDS = 2 * SECONDS + 15
"""For the answer, for those of a broker that moves, and for the start of a process under load."""


_EXPENDABLE = Event()


def ask_in_this_process() -> None:
    """Let `describe_group` ask in this process, whose parent knows that librdkafka may abort it."""
    _EXPENDABLE.set()


def describe_group(config: Mapping[str, str], group_id: str) -> GroupState:
    """The group as Kafka describes it now; one that Kafka does not know is dead, no error.

    Raises:
        Unreachable: no broker answers. Refused: an ACL forbids it.
    """
    if _EXPENDABLE.is_set():
        return _state(_ask(config, group_id, SECONDS))
    question = {"config": dict(config), "group_id": group_id, "seconds": SECONDS}
    try:
        asked = subprocess.run(  # noqa: S603 (our own program)
            CHILD,
            input=json.dumps(question),  # it holds secrets, which no command line shows
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            env=for_python(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BrokersSilent(what=f"group {group_id}", seconds=LONGEST_SECONDS) from None
    if asked.returncode or not asked.stdout:
        last = asked.stderr.strip().rpartition("\n")[2]
        raise GroupDescriptionDied(group=group_id, status=asked.returncode, last_words=last)
    return _state(json.loads(asked.stdout))


def _state(found: dict[str, Any]) -> GroupState:
    if "error" in found:
        raise error_from_dict(found["error"])
    holders = tuple(_holder_from(**one) for one in found.pop("holders"))
    return GroupState(**found | {"granted": tuple(found["granted"])}, holders=holders)


def _holder_from(partitions: list[list[Any]], **facts: Any) -> Holder:
    return Holder(partitions=tuple(TopicPartition(*one) for one in partitions), **facts)


def _ask(config: Mapping[str, str], group_id: str, seconds: float) -> dict[str, Any]:
    admin = Admin(config)
    try:
        found = request(
            admin,
            lambda: admin.describe_consumer_groups(
                [group_id], include_authorized_operations=True, request_timeout=seconds
            )[group_id],
            f"group {group_id}",
            none_if={"GROUP_ID_NOT_FOUND"},
        )
    except TidemarkError as error:
        return {"error": error_as_dict(error)}
    return asdict(group_state(found))


def main() -> None:
    """Answer the question of stdin on stdout, and end before anything late arrives."""
    print(json.dumps(_ask(**json.load(sys.stdin))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
