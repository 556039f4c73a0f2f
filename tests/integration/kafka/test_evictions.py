"""Members that die, hang or are refused: seen, named, and survived by the group."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Signal

import pytest
from tests.support.members import Apart, Told, apart, partitions, share
from tests.support.waiting import outlast, until

from tidemark.kafka.errors import SessionOutOfBounds
from tidemark.kafka.group import Group
from tidemark.kafka.member import Event, Member
from tidemark.model.membership import Membership, Strategy

SESSION_MS = 2000
COOPERATIVE = Membership(session_timeout_ms=SESSION_MS)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


@pytest.fixture
def sharing(
    kafka: str, topic: Callable[..., str], group: str, tmp_path: Path
) -> Iterator[tuple[Member, Apart]]:
    """A member here and one in its own process, with two partitions each."""
    name = topic(partitions=4)
    with Member(
        {"bootstrap.servers": kafka}, group, [name], "here", membership=COOPERATIVE
    ) as member:
        until(lambda: len(member.assigned()) == 4)
        with apart(tmp_path, kafka, group, name, "there", SESSION_MS) as other:
            until(lambda: other.holds(name) and len(member.assigned()) == 2)
            yield member, other


def test_the_partitions_of_a_killed_member_go_to_the_other_after_its_session(
    sharing: tuple[Member, Apart], kafka: str, group: str
) -> None:
    """S21, S23."""
    member, other = sharing
    other.signal(signal.SIGKILL)
    until(lambda: len(member.assigned()) == 4)
    [holder] = Group({"bootstrap.servers": kafka}, group).holders()
    assert holder.client_id == "here"


def test_a_stopped_member_is_evicted_named_and_joins_again_when_it_goes_on(
    sharing: tuple[Member, Apart],
) -> None:
    """S33: the session time-out."""
    member, other = sharing
    other.signal(signal.SIGSTOP)
    until(lambda: len(member.assigned()) == 4)
    assert not other.told(Event.LOST)
    other.signal(signal.SIGCONT)
    until(lambda: other.told(Event.SESSION_TIMED_OUT))
    until(lambda: len(member.assigned()) == 2)
    assert not other.told(Event.POLL_INTERVAL_EXCEEDED)


@pytest.mark.long
@pytest.mark.parametrize("strategy", [Strategy.range, Strategy.cooperative_sticky])
def test_a_hanging_owner_thread_is_evicted_named_and_joins_again(
    kafka: str, topic: Callable[..., str], group: str, told: Told, strategy: Strategy
) -> None:
    """S33: the poll interval. Only the member's own thread counts against it."""
    name = topic(partitions=2)
    whole = partitions(name, 2)
    membership = Membership(
        assignment_strategy=(strategy,), session_timeout_ms=1500, poll_interval_ms=1500
    )
    observed, goes_on = Group({"bootstrap.servers": kafka}, group), Signal()

    def hang(_: object) -> None:
        goes_on.wait(120)

    with Member({"bootstrap.servers": kafka}, group, [name], "m", membership=membership) as member:
        until(lambda: member.assigned() == whole)
        member._commands.put(hang)
        until(lambda: not observed.holders())
        goes_on.set()
        until(lambda: Event.LOST in told.by(member))
        until(lambda: member.assigned() == whole)
        assert told.by(member) == [
            Event.ASSIGNED,
            Event.POLL_INTERVAL_EXCEEDED,
            Event.LOST,
            Event.ASSIGNED,
        ]


def test_a_slow_batch_never_gets_its_member_evicted(
    kafka: str, topic: Callable[..., str], group: str, told: Told
) -> None:
    """S30: the thread that works is not the one that polls."""
    name = topic(partitions=2)
    membership = Membership(session_timeout_ms=5000, poll_interval_ms=5000)
    with Member({"bootstrap.servers": kafka}, group, [name], "m", membership=membership) as member:
        until(member.assigned)
        outlast(6)  # a batch that takes longer than the interval
        assert Event.POLL_INTERVAL_EXCEEDED not in told.by(member)
        assert member.assigned() == partitions(name, 2)


@pytest.mark.long
def test_a_session_that_the_broker_does_not_allow_is_named_with_its_bounds(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """S23."""
    membership = Membership(session_timeout_ms=500)
    with Member(
        {"bootstrap.servers": kafka}, group, [topic()], "m", membership=membership
    ) as member:
        member.wait(120)
        with pytest.raises(SessionOutOfBounds) as refused:
            member.assigned()
    found = refused.value
    assert (found.client_id, found.group) == ("m", group)
    assert (found.session_timeout_ms, found.bounds) == (500, (1000, 1_800_000))


@pytest.mark.long
def test_members_of_one_group_share_after_one_left_in_the_middle_of_a_rebalance(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """S21: a member that goes while the others join."""
    name = topic(partitions=4)
    whole = partitions(name, 4)
    config = {"bootstrap.servers": kafka}
    with Member(config, group, [name], "first", membership=COOPERATIVE) as first:
        with Member(config, group, [name], "passing", membership=COOPERATIVE):
            pass
        with Member(config, group, [name], "second", membership=COOPERATIVE) as second:
            until(lambda: share([first, second], whole))
