"""Who is in the group, and who holds things up: by what Kafka and the ledger tell."""

from datetime import UTC, datetime, timedelta

from tidemark.kafka.description import GroupState, Holder
from tidemark.ledger.queries import ShownMember
from tidemark.model.offsets import TopicPartition
from tidemark.page.html import page
from tidemark.views.group_health import FOREIGN, GroupHealth, held_up
from tidemark.views.status import MemberHealth, PartitionStatus, members_of

NOW = datetime.now(UTC)
FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))


def ago(seconds: int) -> datetime:
    return NOW - timedelta(seconds=seconds)


def member(number: int, holds: tuple[TopicPartition, ...], seconds: int) -> MemberHealth:
    held = tuple(map(str, holds))
    return MemberHealth("member", number, "m", "draining", True, held, seen_at=ago(seconds))


def stranger(*holds: TopicPartition) -> MemberHealth:
    return MemberHealth(
        "foreign", None, None, None, True, tuple(map(str, holds)), client_id="c", host="/h"
    )


def shown(number: int, *partitions: str) -> ShownMember:
    return ShownMember(number, "m", "waiting", [*partitions], 1, 2, NOW, NOW, 3.7)


def test_the_holder_that_moved_longest_ago_holds_things_up() -> None:
    members = [member(1, (FIRST,), 5), member(2, (SECOND,), 50), member(3, (THIRD,), 500)]
    found = held_up(members, {FIRST, SECOND}, ago(60), NOW)
    assert (found.by, found.partitions) == ("member 2 (m)", ("t[1]",))
    assert found.since == ago(50)


def test_a_stranger_that_holds_a_waiting_partition_comes_first() -> None:
    found = held_up([member(1, (FIRST,), 500), stranger(SECOND)], {FIRST, SECOND}, ago(60), NOW)
    assert (found.by, found.kind, found.since) == ("c on h", "foreign", ago(60))


def test_a_stranger_that_holds_none_of_them_is_no_matter() -> None:
    found = held_up([member(1, (FIRST,), 5), stranger(SECOND)], {FIRST}, ago(60), NOW)
    assert found.by == "member 1 (m)"


def test_partitions_that_nobody_holds_are_nobodys() -> None:
    found = held_up([member(1, (SECOND,), 5)], {FIRST}, ago(60), NOW)
    assert (found.by, found.kind, found.partitions) == (None, None, ("t[0]",))
    assert (found.since, found.seconds >= 60) == (ago(60), True)


def waiting(*members: MemberHealth, unpublished_seq: int | None = 7) -> GroupHealth:
    """A group with these members, two partitions and a batch that waits for the second one."""
    return GroupHealth(
        region="r",
        group="g",
        state="stable",
        protocol="classic",
        assignor="cooperative-sticky",
        coordinator="k:9092",
        epoch=3,
        run_id="run",
        run_state="open",
        members=members,
        partitions=tuple(PartitionStatus("t", number, 5, 5, 8) for number in range(2)),
        unpublished_seq=unpublished_seq,
        unclaimed=(),
        held_up=held_up([*members], {SECOND}, NOW, NOW) if unpublished_seq else None,
    )


def test_what_a_group_waits_for_is_one_sentence() -> None:
    """Also on the page, where a foreign consumer is named with what to do."""
    found = waiting(member(1, (FIRST,), 5), stranger(SECOND))
    assert found.waits == "batch 7 waits for c on h, which holds t[1], for 0 s"
    body = page("now.html", health=found, foreign=FOREIGN, oldest=None, seen=None)
    assert "Batch 7 waits for c on h, which holds t[1], for 0 s." in body
    assert f"c on h: {FOREIGN}." in body
    assert waiting().waits == "batch 7 waits for t[1]: nobody holds them, for 0 s"
    idle = waiting(member(1, (FIRST,), 5), unpublished_seq=None)
    assert idle.waits == "nothing is waiting: no batch is unpublished"
    body = page("now.html", health=idle, foreign=FOREIGN, oldest=None, seen=None)
    assert "waits for" not in body
    assert "FOREIGN" not in body


def holder(client_id: str, *held: TopicPartition, name: str | None = None) -> Holder:
    return Holder(client_id, "/h", held, f"{client_id}-{name}-uuid", name)


def test_members_are_known_by_their_number_and_strangers_by_their_client() -> None:
    group = GroupState(
        "stable",
        holders=(
            holder("tidemark-other-1", THIRD),
            holder("tidemark-r-2", FIRST),
            holder("tidemark-r-1", SECOND),
        ),
    )
    found = members_of(group, (shown(2), shown(3)), "r", "r", is_open=True)
    assert [(one.kind, one.number, one.in_group, one.partitions) for one in found] == [
        ("member", 2, True, ("t[0]",)),
        ("member", 3, False, ()),
        ("foreign", None, True, ("t[2]",)),
        ("earlier", 1, True, ("t[1]",)),
    ]
    assert (found[0].seen_age_s, found[0].host) == (3, "/h")


def test_a_static_member_is_known_by_what_it_holds() -> None:
    """Kafka goes on showing the client id that the name first came with."""
    first, second = shown(7, "t[0]"), shown(8, "t[1]")
    holders = (
        holder("tidemark-r-1", SECOND, name="r-1"),
        holder("tidemark-r-2", THIRD, name="r-2"),
        holder("tidemark-r-1", FIRST, name="grafana-1"),
    )
    found = members_of(
        GroupState("stable", holders=holders), (first, second), "r", "r", is_open=True
    )
    assert [(one.kind, one.number, one.partitions) for one in found] == [
        ("member", 7, ()),
        ("member", 8, ("t[1]",)),
        ("static", 2, ("t[2]",)),
        ("earlier", 1, ("t[0]",)),
    ]
    assert [one.is_ours for one in found] == [True, True, True, False]


def test_a_member_that_kafka_knows_no_more_is_gone_when_its_run_is_over() -> None:
    group = GroupState("stable", holders=(holder("tidemark-r-2", FIRST),))
    members = (shown(2, "t[0]"), shown(3, "t[1]"))
    over = members_of(group, members, "r", "r", is_open=False)
    assert [one.state for one in over] == ["waiting", "gone"]
    still = members_of(group, members, "r", "r", is_open=True)
    assert [one.state for one in still] == ["waiting", "waiting"]
