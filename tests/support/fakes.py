"""A consumer group in memory, held to the contract of the real one by tests/contract."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidemark.kafka.description import Holder
from tidemark.kafka.errors import MirrorWriterFenced
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import OutputRecord, Sent
from tidemark.protocol.ports import Output


class FakeGroup:
    """Group offsets whose newest writer fences every older one."""

    def __init__(self, group_id: str = "fake") -> None:
        self.group_id = group_id
        self.offsets: Offsets = {}
        self.metadata: dict[TopicPartition, str] = {}
        self.members: list[Holder] = []
        self.records: list[OutputRecord] = []
        self.newest_writer = 0
        self.output: Output | None = None

    @contextmanager
    def writer(self) -> Iterator["FakeWriter"]:
        self.newest_writer += 1
        yield FakeWriter(self, self.newest_writer)

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {p: self.offsets[p] for p in partitions if p in self.offsets}

    def committed_metadata(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]:
        return {p: (o, self.metadata[p]) for p, o in self.committed(partitions).items()}

    def sent(self, partitions: Iterable[TopicPartition]) -> set[Sent]:
        found = self.committed_metadata(partitions).values()
        return {sent for _, metadata in found if (sent := Sent.parse(metadata))}

    def holders(self) -> list[Holder]:
        return self.members


class FakeWriter:
    """A writer of the fake group; fenced once a newer one exists."""

    def __init__(self, group: FakeGroup, number: int) -> None:
        self._group = group
        self._number = number

    def commit(self, offsets: Offsets, metadata: str, records: Iterable[OutputRecord] = ()) -> None:
        records = list(records)
        if self._number != self._group.newest_writer:
            raise MirrorWriterFenced(group=self._group.group_id)
        self._group.records += records
        self._group.offsets |= offsets
        self._group.metadata |= dict.fromkeys(offsets, metadata)
