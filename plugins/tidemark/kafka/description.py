"""Asking for the state of a consumer group, in a process of its own, which may die of the question.

librdkafka aborts its process when brokers come back after a request to a group's coordinator has
timed out (librdkafka's issue 4605; 2.16 still does): the request is given back twice. No caller can
catch that. Requests to other brokers have no such path: they are asked in the driver's own process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from threading import Event
from typing import Any

from tidemark.errors import TidemarkError, retold, told
from tidemark.kafka.admin import SECONDS, Admin, request
from tidemark.kafka.child import environment
from tidemark.kafka.errors import GroupDescriptionDied, GroupNotDescribed
from tidemark.kafka.holders import GroupState, Holder, group_state
from tidemark.model.offsets import TopicPartition

CHILD = (sys.executable, "-P", "-m", "tidemark.kafka.description")
LONGEST_SECONDS = 2 * SECONDS + 15
"""For the answer, for those of a broker that moves, and for the start of a process under load."""


_EXPENDABLE = Event()


def ask_in_this_process() -> None:
    """This process may die of the question: whoever started it expects that."""
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
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GroupNotDescribed(group=group_id, seconds=LONGEST_SECONDS) from None
    if asked.returncode or not asked.stdout:
        last = asked.stderr.strip().rpartition("\n")[2]
        raise GroupDescriptionDied(group=group_id, status=asked.returncode, last_words=last)
    return _state(json.loads(asked.stdout))


def _state(found: dict[str, Any]) -> GroupState:
    if "error" in found:
        raise retold(found["error"])
    holders = tuple(_holder(**one) for one in found.pop("holders"))
    return GroupState(**found | {"granted": tuple(found["granted"])}, holders=holders)


def _holder(partitions: list[list[Any]], **facts: Any) -> Holder:
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
            none_if="GROUP_ID_NOT_FOUND",
        )
    except TidemarkError as error:
        return {"error": told(error)}
    return asdict(group_state(found))


def main() -> None:
    """Answer the question of stdin on stdout, and end before anything late arrives."""
    print(json.dumps(_ask(**json.load(sys.stdin))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
