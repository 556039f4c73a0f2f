"""Members of a group as tests drive and watch them: in this process, or in one of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemark.kafka.member import Event, Member
from tidemark.model.offsets import TopicPartition

PROJECT = Path(__file__).resolve().parents[2]


def partitions(topic: str, count: int) -> frozenset[TopicPartition]:
    """All partitions of a topic."""
    return frozenset(TopicPartition(topic, number) for number in range(count))


def share(members: list[Member], whole: frozenset[TopicPartition]) -> bool:
    """Whether each of the partitions is one member's, and each member has as many."""
    parts = [member.assigned() for member in members]
    sizes = {len(part) for part in parts}
    return frozenset().union(*parts) == whole and sizes == {len(whole) // len(members)}


class Told:
    """The events that members logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "tidemark.kafka.member")
        self._caplog = caplog

    def by(self, member: Member) -> list[Event]:
        """The names of one member's events, in their order."""
        notes = [one.args for one in list(self._caplog.records) if one.name == Event.__module__]
        return [
            note[1]
            for note in notes
            if isinstance(note, tuple)
            and note[0] == member.client_id
            and isinstance(note[1], Event)
        ]


@dataclass(frozen=True, slots=True)
class Apart:
    """A member in a process of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def signal(self, how: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(how)

    def holds(self, topic: str) -> bool:
        """Whether it was assigned a partition of the topic."""
        return f": {Event.ASSIGNED}: {topic}[" in self.log.read_text()

    def told(self, event: Event) -> bool:
        """Whether it has logged the event."""
        return f": {event}: " in self.log.read_text()


@contextmanager
def apart(
    folder: Path, bootstrap: str, group: str, topic: str, client_id: str, session_ms: int
) -> Iterator[Apart]:
    """A member runs in a process of its own; killed at the end, also when it is stopped."""
    log = folder / f"{client_id}.log"
    argv = [sys.executable, "-m", "tests.support.members"]
    argv += [bootstrap, group, topic, client_id, str(session_ms)]
    env = {**os.environ, "PYTHONPATH": f"{PROJECT / 'plugins'}:{PROJECT}"}
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, env=env, cwd=PROJECT)
    try:
        yield Apart(process, log)
    finally:
        process.kill()
        process.wait(120)


def _stay() -> None:
    """Be a member until killed."""
    import logging

    from tidemark.model.membership import Membership

    bootstrap, group, topic, client_id, session_ms = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    membership = Membership(session_timeout_ms=int(session_ms))
    config = {"bootstrap.servers": bootstrap}
    with Member(config, group, [topic], client_id, membership=membership):
        signal.pause()


if __name__ == "__main__":
    _stay()
