"""One contract of the consumer group as the mirror sees it, for the fake and for the real one."""

import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.failpoint import failpoint
from tests.support.fakes import FakeGroup
from tests.support.region import ONE_BROKER
from tests.support.sent import sent_to

from tidemark.errors import Unreachable
from tidemark.failpoints import FailpointHit
from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka import description
from tidemark.kafka import group as group_module
from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import (
    BrokersSilent,
    BrokersUnreachable,
    GroupDescriptionDied,
    KafkaAnswersError,
    MirrorWriterFenced,
    OutputNotSentInTime,
)
from tidemark.kafka.group import Group as KafkaGroup
from tidemark.kafka.member import Member
from tidemark.model.membership import GroupProtocol, Membership
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import OutputRecord, Sent, Topics
from tidemark.protocol.ports import Group
from tidemark.settings.connections import Connection


class ToldGroup(Group, Protocol):
    """A group that tells the metadata beside its offsets."""

    def committed_metadata(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]: ...


class Subject(ABC):
    """A group under the contract, with what the contract needs to know beside it."""

    group: ToldGroup
    group_id: str
    topic: str

    def at(self, first: int, second: int) -> Offsets:
        """Offsets of the topic's two partitions."""
        return {TopicPartition(self.topic, 0): first, TopicPartition(self.topic, 1): second}

    def committed(self) -> Offsets:
        """What reads back."""
        return self.group.committed(self.at(0, 0))

    @abstractmethod
    def metadata(self) -> set[str]:
        """The metadata that stands beside the offsets."""

    @abstractmethod
    def live_member(self) -> AbstractContextManager[None]:
        """Somebody is in the group."""

    @abstractmethod
    def die_in_commit(self, offsets: Offsets) -> None:
        """A writer dies when its offsets are sent and not committed."""


class FakeSubject(Subject):
    def __init__(self) -> None:
        self.group: FakeGroup = FakeGroup()
        self.group_id, self.topic = self.group.group_id, "t"

    def metadata(self) -> set[str]:
        return set(self.group.metadata.values())

    def live_member(self) -> AbstractContextManager[None]:
        return nullcontext()

    def die_in_commit(self, offsets: Offsets) -> None:
        with self.group.writer():
            pass


class KafkaSubject(Subject):
    def __init__(self, bootstrap: str, topic: str, group_id: str) -> None:
        self._config = {"bootstrap.servers": bootstrap, **ONE_BROKER}
        self.group_id, self.topic = group_id, topic
        self.group = KafkaGroup(self._config, group_id)

    def metadata(self) -> set[str]:
        admin = AdminClient(self._config)
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group_id)], require_stable=True
        )
        return {p.metadata for p in asked[self.group_id].result(120).topic_partitions}

    @contextmanager
    def live_member(self) -> Iterator[None]:
        with Member(self._config, self.group_id, [self.topic], "a-member") as member:
            while not member.assigned():
                member.wait(120)
            yield
            assert len(member.assigned()) == 2

    def die_in_commit(self, offsets: Offsets) -> None:
        with failpoint("mirror.sent"), pytest.raises(FailpointHit):  # noqa: SIM117
            with self.group.writer() as writer:
                writer.commit(offsets, "of a writer that died")


@pytest.fixture(params=["fake", "kafka"])
def subject(request: pytest.FixtureRequest) -> Subject:
    """The fake, then the real one."""
    if request.param == "fake":
        return FakeSubject()
    topic: Callable[..., str] = request.getfixturevalue("topic")
    return KafkaSubject(
        request.getfixturevalue("kafka"), topic(partitions=2), request.getfixturevalue("group")
    )


def test_a_group_that_nobody_wrote_has_no_offsets(subject: Subject) -> None:
    assert subject.committed() == {}


def test_offsets_read_back_as_written(subject: Subject) -> None:
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "r/1/2")
    assert subject.committed() == subject.at(5, 7)


def test_only_the_partitions_asked_for_are_told(subject: Subject) -> None:
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "")
    second = TopicPartition(subject.topic, 1)
    assert subject.group.committed([second]) == {second: 7}


def test_the_metadata_stands_beside_every_offset(subject: Subject) -> None:
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "flights/3/12")
    assert subject.metadata() == {"flights/3/12"}


def test_offsets_read_back_with_their_metadata(subject: Subject) -> None:
    """It tells under which epoch and seq the mirror was written."""
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "flights/3/12")
    first, second = subject.at(0, 0)
    asked = [first, second, TopicPartition(subject.topic, 9)]
    found = subject.group.committed_metadata(asked)
    assert found == {first: (5, "flights/3/12"), second: (7, "flights/3/12")}


def test_what_was_sent_is_told_by_the_metadata(subject: Subject) -> None:
    """B9: partitions whose metadata say nothing of it are left out."""
    sent = Sent(11, UUID(int=7))
    first, second = subject.at(5, 7)
    with subject.group.writer() as writer:
        writer.commit({first: 5}, f"flights/3/12/{sent}")
        writer.commit({second: 7}, "flights/3/12")
    assert subject.group.sent([first, second]) == {sent}
    assert subject.group.sent([second]) == set()


def test_lower_offsets_are_accepted(subject: Subject) -> None:
    """A reset or a rewind takes Kafka down."""
    for offsets in (subject.at(5, 7), subject.at(0, 1)):
        with subject.group.writer() as writer:
            writer.commit(offsets, "")
    assert subject.committed() == subject.at(0, 1)


def test_a_newer_writer_fences_an_older_one_and_nothing_of_it_lands(subject: Subject) -> None:
    """H9: the order of mirrors is that of init_transactions."""

    def write_late() -> None:
        with subject.group.writer() as older:
            with subject.group.writer() as newer:
                newer.commit(subject.at(5, 7), "newer")
            older.commit(subject.at(99, 99), "older")

    with pytest.raises(MirrorWriterFenced) as fenced:
        write_late()
    assert fenced.value.group == subject.group_id
    assert (subject.committed(), subject.metadata()) == (subject.at(5, 7), {"newer"})


def test_a_writer_that_only_came_fences_too(subject: Subject) -> None:
    """Before it has written anything: it may have read the ledger already."""

    def write_late() -> None:
        with subject.group.writer() as older, subject.group.writer():
            older.commit(subject.at(99, 99), "older")

    with pytest.raises(MirrorWriterFenced):
        write_late()
    assert subject.committed() == {}


def test_what_a_dead_writer_sent_and_did_not_commit_never_lands(subject: Subject) -> None:
    subject.die_in_commit(subject.at(99, 99))
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "next")
    assert (subject.committed(), subject.metadata()) == (subject.at(5, 7), {"next"})


def test_what_was_sent_is_not_told_while_a_transaction_is_pending(
    kafka: str, topic: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: what is told may be older than what that commits. (KIP-447: require_stable.)"""
    monkeypatch.setattr(writer_module, "TRANSACTION_TIMEOUT_MS", 600_000)  # it stays pending
    subject = KafkaSubject(kafka, topic(partitions=2), group)
    subject.die_in_commit(subject.at(99, 99))
    monkeypatch.setattr(group_module, "SECONDS", 1)
    monkeypatch.setattr("tidemark.kafka.admin.SECONDS", 1)
    with pytest.raises((KafkaAnswersError, BrokersSilent)):  # no answer in a second is none too
        subject.group.sent(subject.at(0, 0))


def test_live_members_do_not_disturb(subject: Subject) -> None:
    """H9c, H9f: the mirror needs no empty group, no generation, and disturbs nobody."""
    with subject.live_member():
        with subject.group.writer() as writer:
            writer.commit(subject.at(5, 7), "")
        assert subject.committed() == subject.at(5, 7)
    assert subject.committed() == subject.at(5, 7)


def test_nobody_is_needed_in_the_group(kafka: str, topic: Callable[..., str], group: str) -> None:
    subject = KafkaSubject(kafka, topic(partitions=2), group)
    with subject.group.writer() as writer:
        writer.commit(subject.at(1, 1), "")
    assert KafkaGroup({"bootstrap.servers": kafka}, group).holders() == []


def test_a_mirror_does_not_bear_a_static_name_that_the_connection_has(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """A KIP-848 group would take the mirror for that member, and refuse it."""
    name = topic(partitions=2)
    extra = {"bootstrap.servers": kafka, "group.instance.id": "theirs"}
    config = kafka_config(Connection("k", "kafka", extra=extra))
    assert "group.instance.id" not in config
    membership = Membership(group_protocol=GroupProtocol.consumer)
    with Member(extra, group, [name], "a-member", membership=membership) as member:
        while not member.assigned():
            member.wait(120)
        subject = KafkaSubject(kafka, name, group)
        subject.group = KafkaGroup(config, group)
        with subject.group.writer() as writer:
            writer.commit(subject.at(5, 7), "")
        assert subject.committed() == subject.at(5, 7)


def test_a_consumer_of_ones_own_finds_the_mirrored_offsets(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """B3: Kafka's own tools see progress."""
    subject = KafkaSubject(kafka, topic(partitions=2), group)
    with subject.group.writer() as writer:
        writer.commit(subject.at(3, 4), "")
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    found = consumer.committed([KafkaPartition(subject.topic, n) for n in (0, 1)], 120)
    consumer.close()
    assert [p.offset for p in found] == [3, 4]


def test_a_process_that_dies_of_the_question_is_no_answer(
    kafka: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: librdkafka can abort a process that asks for a group; a driver must not be that one."""
    child = (sys.executable, "-c", "import os; os.abort()")
    monkeypatch.setattr(description, "CHILD", child)
    with pytest.raises(GroupDescriptionDied) as died:
        KafkaGroup({"bootstrap.servers": kafka}, group).holders()
    assert (died.value.group, died.value.status) == (group, -signal.SIGABRT)


def test_what_the_process_that_asked_was_told_is_the_error(group: str) -> None:
    with pytest.raises(Unreachable) as told:
        KafkaGroup({"bootstrap.servers": "127.0.0.1:1"}, group).holders()
    assert told.value.case == BrokersUnreachable.__name__
    assert "127.0.0.1:1" in str(told.value.fields()["cause"])


def test_a_writer_serves_the_next_mirror_too(
    kafka: str, topic: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new producer takes up to half a second to find its coordinator."""
    subject, made = KafkaSubject(kafka, topic(partitions=2), group), producers(monkeypatch)
    for offsets in (subject.at(1, 1), subject.at(5, 7), subject.at(5, 8)):
        with subject.group.writer() as writer:
            writer.commit(offsets, "")
        assert subject.committed() == offsets
    assert len(made) == 1


def test_a_writer_that_was_fenced_between_two_mirrors_writes_nothing_and_is_not_used_again(
    kafka: str, topic: Callable[..., str], group: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """H9: a member is paused between two mirrors, and a reset passes by."""
    subject = KafkaSubject(kafka, topic(partitions=2), group)
    with subject.group.writer() as writer:
        writer.commit(subject.at(3, 3), "older")
    with KafkaGroup({"bootstrap.servers": kafka}, group).writer() as writer:
        writer.commit(subject.at(1, 1), "newer")
    with pytest.raises(MirrorWriterFenced), subject.group.writer() as writer:
        writer.commit(subject.at(99, 99), "older")
    assert (subject.committed(), subject.metadata()) == (subject.at(1, 1), {"newer"})
    with subject.group.writer() as writer:
        writer.commit(subject.at(5, 7), "newest")
    assert subject.committed() == subject.at(5, 7)
    assert "fenced" not in capfd.readouterr().err


def test_a_writer_in_use_is_given_to_nobody_else(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """Two batches in flight: two threads of a member may mirror at the same time."""
    subject = KafkaSubject(kafka, topic(partitions=2), group)
    with subject.group.writer() as writer:
        writer.commit(subject.at(1, 1), "")
    with pytest.raises(MirrorWriterFenced), subject.group.writer() as older:  # noqa: PT012
        with subject.group.writer() as newer:
            assert newer is not older
            newer.commit(subject.at(5, 7), "")
        older.commit(subject.at(99, 99), "")
    assert subject.committed() == subject.at(5, 7)


class AbortedProducer(Producer):  # type: ignore[misc]
    """Notes how much was in flight when a transaction was aborted."""

    in_flight: ClassVar[list[int]] = []

    def abort_transaction(self, seconds: float) -> None:
        self.in_flight.append(len(self))
        super().abort_transaction(seconds)


ABORTS = 20


def test_an_abort_waits_for_what_is_in_flight_and_the_next_mirror_succeeds(
    kafka: str, topic: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9, G112: whatever becomes of the producer, nothing of an abort is seen, nothing is lost."""
    monkeypatch.setattr(AbortedProducer, "in_flight", [])
    monkeypatch.setattr(writer_module, "Producer", AbortedProducer)
    subject, sink = KafkaSubject(kafka, topic(partitions=2), group), topic(partitions=1)
    output: Any = SimpleNamespace(topics=Topics(sink), max_seconds=60)
    subject.group = KafkaGroup({"bootstrap.servers": kafka, **ONE_BROKER}, group, output)

    def records(name: str, *, stopping_after: int | None = None) -> Iterator[OutputRecord]:
        yield OutputRecord(sink, None, name.encode(), HEADERS)
        for _ in range(stopping_after or 0):
            subject.committed()  # takes about as long as the record is on its way
        if stopping_after is not None:
            raise OutputNotSentInTime(topics=output.topics, seconds=0)

    def mirror(at: int, **kind: int) -> None:
        with subject.group.writer() as writer:
            writer.commit(subject.at(at, at), "", records(str(at), **kind))

    for number in range(ABORTS):
        mirror(2 * number)
        with pytest.raises(OutputNotSentInTime):
            mirror(1_000_000 + number, stopping_after=number % 4)
        mirror(2 * number + 1)
        assert subject.committed() == subject.at(2 * number + 1, 2 * number + 1)
    assert [one.value for one in sent_to(kafka, sink)] == [b"%d" % n for n in range(2 * ABORTS)]
    assert AbortedProducer.in_flight == [0] * ABORTS


HEADERS = (("region", b"r"), ("seq", b"1"), ("epoch", b"1"))


def producers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The producers that are made from now on."""
    made: list[object] = []

    def producer(*config: Any, **options: Any) -> Producer:
        made.append(config)
        return Producer(*config, **options)

    monkeypatch.setattr(writer_module, "Producer", producer)
    return made
