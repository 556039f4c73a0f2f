"""Members of one group: every strategy and protocol, rolling changes, static names, new parts."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.members import Told, partitions, share
from tests.support.topics import add_partitions, create_topic
from tests.support.waiting import until

from tidemark.kafka.admin import Admin
from tidemark.kafka.config import MEMBER_SETTINGS
from tidemark.kafka.errors import NoTopicMatches, StaticNameTaken
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Event, Member
from tidemark.model.membership import GroupProtocol, Membership, Strategy
from tidemark.model.offsets import TopicPartition

SESSION_MS = 3000
RANGE = Membership(assignment_strategy=(Strategy.range,), session_timeout_ms=SESSION_MS)
ROUNDROBIN = Membership(assignment_strategy=(Strategy.roundrobin,), session_timeout_ms=SESSION_MS)
BOTH = Membership(
    assignment_strategy=(Strategy.range, Strategy.roundrobin), session_timeout_ms=SESSION_MS
)
COOPERATIVE = Membership(session_timeout_ms=SESSION_MS)
CONSUMER = Membership(group_protocol=GroupProtocol.consumer)

MemberOf = Callable[..., Member]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


@pytest.fixture
def observed(kafka: str, group: str) -> Group:
    """The group as the admin client sees it."""
    return Group({"bootstrap.servers": kafka}, group)


@pytest.fixture
def member_of(kafka: str, group: str) -> MemberOf:
    """Makes members of the test's group: `member_of([topic], 1, RANGE)`."""

    def make(topics: Iterable[str], number: int, membership: Membership = COOPERATIVE) -> Member:
        client_id = f"tidemark-{group}-{number}"
        return Member(
            {"bootstrap.servers": kafka}, group, [*topics], client_id, membership=membership
        )

    return make


class Recording(Member):
    """A member that keeps what is taken away of `whole` at each of its events."""

    whole: frozenset[TopicPartition] = frozenset()

    def _note(self, event: Event, what: Any) -> None:
        record = self.__dict__.setdefault("record", [])
        record.append((event, self.lost_partitions(self.whole)))
        super()._note(event, what)


@pytest.mark.parametrize(
    ("membership", "protocol", "assignor"),
    [
        (RANGE, "classic", "range"),
        pytest.param(ROUNDROBIN, "classic", "roundrobin", marks=pytest.mark.long),
        (COOPERATIVE, "classic", "cooperative-sticky"),
        (CONSUMER, "consumer", "uniform"),
    ],
    ids=["range", "roundrobin", "cooperative-sticky", "KIP-848"],
)
def test_two_members_share_are_mirrored_beside_and_leave(
    topic: Callable[..., str],
    group: str,
    observed: Group,
    member_of: MemberOf,
    membership: Membership,
    protocol: str,
    assignor: str,
) -> None:
    """S32, S34: by each strategy, and by the broker's own protocol."""
    name = topic(partitions=8)
    whole = partitions(name, 8)
    assert observed.describe().state == "dead"
    with member_of([name], 1, membership) as first:
        until(lambda: first.assigned() == whole)
        with member_of([name], 2, membership) as second:
            until(lambda: share([first, second], whole))
            halves = {1: first.assigned(), 2: second.assigned()}
            until(lambda: held(observed) == halves, told=observed.describe)
            found = observed.describe()
            assert (found.protocol, found.assignor) == (protocol, assignor)
            assert len({holder.member_id for holder in found.holders}) == 2
            with observed.writer() as writer:
                writer.commit(dict.fromkeys(whole, 7), "r/1/2")
        until(lambda: first.assigned() == whole)
    until(lambda: observed.describe().state == "empty")
    assert observed.holders() == []
    assert observed.committed_metadata(whole) == dict.fromkeys(whole, (7, "r/1/2"))


def held(observed: Group) -> dict[int | None, frozenset[TopicPartition]]:
    """What each member holds by its number, once the group is stable."""
    found = observed.describe()
    if found.state != "stable":
        return {}
    group = observed.group_id
    return {holder.number(group): frozenset(holder.partitions) for holder in found.holders}


@pytest.mark.parametrize(
    "membership", [RANGE, COOPERATIVE, CONSUMER], ids=["eager", "cooperative", "KIP-848"]
)
def test_what_a_member_is_assigned_its_consumer_never_fetches(
    topic: Callable[..., str], member_of: MemberOf, membership: Membership
) -> None:
    """S6: executors read exact spans: the consumer's own assignment stays empty."""
    name = topic(partitions=2)
    with member_of([name], 1, membership) as member:
        until(lambda: len(member.assigned()) == 2)
        fetched: list[Any] = []
        member._commands.put(lambda consumer: fetched.append(consumer.assignment()))
        until(lambda: fetched)
        assert fetched == [[]]


def test_the_strategy_is_changed_member_by_member_without_a_stop(
    topic: Callable[..., str], observed: Group, member_of: MemberOf
) -> None:
    """S20: both listed, then the new one; somebody owns every partition after each step."""
    name = topic(partitions=4)
    whole = partitions(name, 4)
    members: list[tuple[ExitStack, Member]] = []
    for number, membership in enumerate([RANGE, RANGE, BOTH, BOTH, ROUNDROBIN, ROUNDROBIN]):
        if len(members) == 2:
            members.pop(0)[0].close()
        exits = ExitStack()
        members.append((exits, exits.enter_context(member_of([name], number, membership))))
        until(lambda: share([member for _, member in members], whole))
    until(lambda: observed.describe().assignor == "roundrobin", told=observed.describe)
    for exits, _ in members:
        exits.close()


@pytest.mark.long
def test_a_static_member_comes_back_without_a_rebalance(
    topic: Callable[..., str], member_of: MemberOf, observed: Group, told: Told
) -> None:
    """S32: an eager group would revoke the other member's partitions for a moment."""
    name = topic(partitions=4)
    whole = partitions(name, 4)
    patient = replace(RANGE, session_timeout_ms=15_000)  # it comes back within its session
    named = [replace(patient, instance_id=f"{name}-{number}") for number in (0, 1)]
    with member_of([name], 1, named[0]) as first, ExitStack() as exits:
        second = exits.enter_context(member_of([name], 2, named[1]))
        until(lambda: share([first, second], whole))
        before, held = told.by(first), second.assigned()
        exits.close()
        with member_of([name], 3, named[1]) as third:
            until(third.assigned)
            assert third.assigned() == held
            assert {holder.instance_id for holder in observed.holders()} == {
                membership.instance_id for membership in named
            }
        assert told.by(first) == before


@pytest.mark.long
def test_who_is_alive_under_a_static_name_that_another_took_over_fails(
    topic: Callable[..., str], member_of: MemberOf
) -> None:
    name = topic(partitions=2)
    static = Membership(session_timeout_ms=SESSION_MS, instance_id=f"{name}-0")
    with member_of([name], 1, static) as older:
        until(older.assigned)
        with member_of([name], 2, static) as newer:
            until(newer.assigned)
            until(lambda: older.lost_partitions(partitions(name, 2)))
            with pytest.raises(StaticNameTaken) as taken:
                older.assigned()
            assert taken.value.instance_id == f"{name}-0"
            assert newer.assigned() == partitions(name, 2)


def test_members_may_differ_in_their_topics_while_they_are_changed(
    topic: Callable[..., str], member_of: MemberOf
) -> None:
    """S22: a topic is shared by those who want it, and nobody fails."""
    old, new = topic(partitions=2), topic(partitions=2)
    with member_of([old, new], 2) as second:
        until(lambda: len(second.assigned()) == 4)
        with member_of([old], 1) as first:
            until(lambda: first.assigned() and len(first.assigned() | second.assigned()) == 4)
            assert first.assigned() <= partitions(old, 2)
            assert second.assigned() >= partitions(new, 2)
        with member_of([old, new], 3) as third:
            until(lambda: share([second, third], partitions(old, 2) | partitions(new, 2)))


@pytest.mark.parametrize("membership", [COOPERATIVE, CONSUMER], ids=["classic", "KIP-848"])
def test_added_partitions_are_assigned_while_the_member_runs(
    topic: Callable[..., str],
    admin: AdminClient,
    member_of: MemberOf,
    monkeypatch: pytest.MonkeyPatch,
    membership: Membership,
) -> None:
    """S3: the group's leader looks at the topic again by itself."""
    monkeypatch.setitem(MEMBER_SETTINGS, "topic.metadata.refresh.interval.ms", 500)
    name = topic(partitions=2)
    with member_of([name], 1, membership) as member:
        until(lambda: len(member.assigned()) == 2)
        add_partitions(admin, name, 5)
        until(lambda: member.assigned() == partitions(name, 5))


@pytest.mark.long
@pytest.mark.parametrize("membership", [RANGE, COOPERATIVE], ids=["eager", "cooperative"])
def test_only_what_another_member_got_is_taken_away(
    kafka: str, topic: Callable[..., str], group: str, member_of: MemberOf, membership: Membership
) -> None:
    """S11: work on a partition that comes back need not stop."""
    name = topic(partitions=4)
    whole = partitions(name, 4)
    first = Recording({"bootstrap.servers": kafka}, group, [name], "first", membership=membership)
    first.whole = whole
    with first:
        until(lambda: first.assigned() == whole)
        with member_of([name], 2, membership) as second:
            until(lambda: share([first, second], whole))
            assert first.lost_partitions(whole) == second.assigned()
            record: list[tuple[Event, frozenset[TopicPartition]]] = first.__dict__["record"]
            revoked = [taken for event, taken in record if event is Event.REVOKED]
            eager = not membership.is_incremental
            assert revoked == [frozenset() if eager else second.assigned()]


def test_a_pattern_matches_whole_names_and_what_appears_later(
    kafka: str, topic: Callable[..., str]
) -> None:
    """S24: a new topic belongs to the next run that resolves the pattern."""
    broker = Broker({"bootstrap.servers": kafka})
    first, second = topic(), topic()
    pattern = f"^({first}|{second}|t-later-{first}).*"
    assert broker.topics([pattern]) == tuple(sorted([first, second]))
    assert broker.topics([f"^{first[:-1]}", "plain"]) == ("plain",)
    assert broker.topics([pattern, first]) == tuple(sorted([first, second]))
    admin = AdminClient({"bootstrap.servers": kafka})
    later = f"t-later-{first}"
    create_topic(admin, NewTopic(later, 1, 1))
    assert later in broker.topics([pattern])
    admin.delete_topics([later])[later].result(120)


@pytest.mark.long
def test_a_topic_that_vanishes_while_a_pattern_is_resolved_is_no_match(
    kafka: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker({"bootstrap.servers": kafka})
    name = topic()
    listed = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=120)
    listed.topics["t-vanished"] = listed.topics[name]
    monkeypatch.setattr(Admin, "list_topics", lambda _, timeout: listed)
    assert broker.topics([f"^({name}|t-vanished)"]) == (name,)


@pytest.mark.long
def test_internal_topics_match_no_pattern(
    kafka: str, topic: Callable[..., str], observed: Group
) -> None:
    topic()
    with observed.writer():  # __transaction_state is there
        pass
    broker = Broker({"bootstrap.servers": kafka})
    matched = broker.topics(["^.*"])
    assert matched
    assert not {"__transaction_state", "__consumer_offsets"} & {*matched}
    with pytest.raises(NoTopicMatches) as found:
        broker.topics(["^__transaction_.*", "^nothing"])
    assert found.value.patterns == ("^__transaction_.*", "^nothing")
