"""A batch that is withheld from the output topic: the way out where it can't be sent."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.failpoint import failpoint
from tests.support.sent import another_sends, sent_to
from tests.support.world import World, dump

from tidemark.errors import (
    Fenced,
    OutputTooLarge,
    Refused,
    RunNotDone,
    Superseded,
    Unreachable,
)
from tidemark.failpoints import FailpointHit
from tidemark.kafka.group import Group
from tidemark.ledger.actions import Order
from tidemark.ledger.looks import Looks
from tidemark.model.output import Topics
from tidemark.operations.mirror import mirror_region
from tidemark.operations.output import OutputSnapshot
from tidemark.operations.output_status import output_status
from tidemark.operations.region import region_of, topics_gone
from tidemark.operations.status import in_ledger
from tidemark.operations.withhold import WithholdReport, withhold_batch
from tidemark.protocol.mirror import mirror
from tidemark.protocol.withhold_request import WithholdRequest
from tidemark.verify.verify import verify

ORDER = Order("ada", "deleted on request")


@pytest.fixture
def region(world: World, topic: Callable[..., str]) -> World:
    """A region that sends its rows, in batches of two records."""
    world.settings |= {"output": {"topic": topic(partitions=1)}, "batch": {"in_flight": 1}}
    return world


def withhold(region: World, seq: int, order: Order | None = ORDER) -> WithholdReport:
    return withhold_batch(region.pipeline, region.connections, seq, order)


def words(region: World) -> list[str]:
    """The rows in the output topic, by their numbers, in order."""
    records = sent_to(region.kafka, region.settings["output"]["topic"])
    return [json.loads(one.value or b"")["value"].removeprefix("value ") for one in records]


def send(region: World) -> None:
    mirror_region(region.pipeline, region.connections, check=False)


def unsendable(region: World, *lacking: int, records: int = 6) -> None:
    """A run has published three batches, of some of which a row was deleted; the first is sent."""
    region.produce(records)
    region.open(max_records=2, max_batches=1)
    region.drain()
    region.close()
    region.open("second", max_records=2)
    with another_sends(region):
        region.drain("second")
    for seq in lacking:
        region.sql(
            "DELETE FROM public.records WHERE ctid = (SELECT min(ctid) FROM public.records"
            " WHERE batch_seq = %s)",
            (seq,),
        )
    if lacking:
        with pytest.raises(RunNotDone, match=rf"batch {lacking[0]} published 2 changes"):
            region.close("second")


def test_what_can_not_be_sent_is_withheld_and_what_follows_is_sent(region: World) -> None:
    """B9: it is told in the ledger, in status and among the actions; runs are green again."""
    unsendable(region, 2)
    with pytest.raises(Refused, match="batch 2 published 2 changes"):
        region.open("third")
    before = dump(region.warehouse)
    assert withhold(region, 2, None) == WithholdReport(
        region.region, False, 3, Topics(region.settings["output"]["topic"]), 2, 2, 1, 1
    )
    assert dump(region.warehouse) == before, "a dry run"
    assert withhold(region, 2).epoch == 4
    assert words(region) == ["0", "1", "4", "5"]
    region.produce(1, start=6)
    region.run("fourth")
    assert words(region) == ["0", "1", "4", "5", "6"]
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == [(2,)]
    with region_of(region.pipeline, region.connections) as one:
        found = output_status(one, in_ledger(one).partitions)
        [action] = Looks(one.ledger.engine).actions(region.region, 9)
    assert found is not None
    assert (found.sent_seq, found.unsent_batches, found.withheld_seqs) == (4, 0, (2,))
    assert (action.kind, action.requested_by, action.why) == ("withhold", *vars_of(ORDER))
    assert action.details == {"seq": 2}
    resets = "SELECT state, overrides FROM tidemark.resets"
    assert region.sql(resets) == [("finished", ["withhold"])]


def vars_of(order: Order) -> tuple[str, str]:
    return order.who, order.why


def test_each_batch_that_can_not_be_sent_needs_its_own_word(region: World) -> None:
    """B9: the error names the next one, and what was withheld stays so."""
    unsendable(region, 2, 3)
    with pytest.raises(Refused, match="batch 3 published 2 changes"):
        withhold(region, 2)
    assert words(region) == ["0", "1"]
    with region_of(region.pipeline, region.connections) as one:
        found = output_status(one, in_ledger(one).partitions)
    assert found is not None
    assert (found.unsent_batches, found.unsent_records, found.withheld_seqs) == (1, 2, (2,))
    withhold(region, 3)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld ORDER BY 1") == [(2,), (3,)]
    region.run("third")
    assert words(region) == ["0", "1"]


def test_an_output_of_upserts_that_was_away_for_a_while_goes_on(
    world: World, topic: Callable[..., str]
) -> None:
    """B9, B8: nobody kept what its batches changed meanwhile; the target is whole and proven."""
    output = {"topic": topic(partitions=1)}
    world.settings |= {"target": {"mode": "upsert", "key": ["kafka_offset"]}, "output": output}
    world.produce(1)
    world.run("first")
    del world.settings["output"]
    world.overrides = ("accept_changes",)
    world.produce(1, start=1)
    world.run("second")
    world.settings["output"] = output | {"resume_after": 1}
    world.produce(1, start=2)
    with pytest.raises(Refused, match=r"batch 2 published 1 changes .* 0 are there"):
        world.open("third")
    world.overrides = ()
    withhold(world, 2)
    world.run("fourth")
    assert words(world) == ["0", "2"]
    report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    assert (report.wrong, report.unverifiable) == (0, 0)


def test_a_batch_that_is_too_large_for_ever_is_passed(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    region.settings["output"]["max_seconds"] = 1
    unsendable(region)
    original = OutputSnapshot.records

    def slow(self: Any, batch: Any) -> Any:
        if batch.seq == 2:
            region.sql("SELECT pg_sleep(1.1)")
        yield from original(self, batch)

    monkeypatch.setattr(OutputSnapshot, "records", slow)
    with pytest.raises(OutputTooLarge):
        send(region)
    withhold(region, 2)
    assert words(region) == ["0", "1", "4", "5"]


@pytest.mark.parametrize("seq", [1, 3, 4, 99])
def test_only_the_lowest_unsent_batch_is_withheld(region: World, seq: int) -> None:
    """B9: one that was sent, has one before it, or is none is refused; nothing is written."""
    unsendable(region, 2)
    before = dump(region.warehouse)
    for order in (None, ORDER):
        with pytest.raises(Refused, match=rf"batch {seq} is not the lowest .*: batch 1 was sent"):
            withhold(region, seq, order)
    assert dump(region.warehouse) == before


def test_the_ledger_itself_withholds_the_lowest_alone(region: World) -> None:
    """B9: whatever was looked at before."""
    unsendable(region, 2)
    with region_of(region.pipeline, region.connections) as one:
        for seq in (1, 3, 99):
            request = WithholdRequest(*vars_of(ORDER), seq, 2, 3)
            with one.ledger.deciding(one.name, 2, "withhold") as tx:
                assert not tx.withhold(seq, 1, request)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    assert region.sql("SELECT kind FROM tidemark.actions") == []


def test_a_batch_that_was_rewound_is_not_withheld(region: World) -> None:
    unsendable(region, 3)
    region.reset(to=1, overrides=["accept_resend", "accept_changes"])
    for seq in (2, 3):
        with pytest.raises(Refused, match="is not the lowest"):
            withhold(region, seq)
    region.run("third")
    assert words(region) == ["0", "1", "2", "3", "4", "5"]


def test_batches_that_were_rewound_stand_before_none(region: World) -> None:
    """B9, B4: the lowest unsent one is the lowest of those that count."""
    unsendable(region, 3)
    region.reset(to=1, overrides=["accept_resend", "accept_changes"])
    region.open("third", max_records=2)
    with another_sends(region):
        region.drain("third")
    region.sql("DELETE FROM public.records WHERE batch_seq = 4")
    withhold(region, 4)
    assert words(region) == ["0", "1", "3", "4", "5"], "the first one after a reset is small"


def test_a_withheld_batch_that_is_rewound_is_read_and_sent_anew(region: World) -> None:
    """B9, B4: the word was of that batch, not of its records."""
    unsendable(region, 2)
    withhold(region, 2)
    region.reset(to=1, overrides=["accept_resend", "accept_changes"])
    region.run("third")
    assert words(region) == ["0", "1", "4", "5", "2", "3", "4", "5"]


def test_without_an_output_there_is_nothing_to_withhold(world: World) -> None:
    world.produce(1)
    world.run()
    with pytest.raises(Refused, match="sends nothing to a topic"):
        withhold(world, 1)


# --- others at the same time ---


def test_a_writer_that_had_read_the_batch_sends_it_no_more(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: it is fenced in Kafka before the batch is withheld."""
    unsendable(region)
    original, due = OutputSnapshot.unsent, [True]

    def late(self: Any, sent: Any) -> Any:
        found = original(self, sent)
        if due:
            due.clear()
            withhold(region, 2)
        return found

    monkeypatch.setattr(OutputSnapshot, "unsent", late)
    with region_of(region.pipeline, region.connections) as one, pytest.raises(Fenced):
        mirror(one.ledger, one.group, one.name, 2)
    assert words(region) == ["0", "1", "4", "5"]


@pytest.mark.parametrize("other", ["mirror of the run", "mirror by hand", "reset"])
def test_nobody_sends_the_batch_while_it_is_being_withheld(
    region: World, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """B9: after it was seen as unsent, and before that is written."""
    unsendable(region)
    with region_of(region.pipeline, region.connections) as one:
        ledger, seen = type(one.ledger), list[str]()
    deciding = ledger.deciding

    def between(self: Any, name: str, epoch: int, what: str) -> Any:
        if what == "withhold":
            with (
                monkeypatch.context() as patch,
                region_of(region.pipeline, region.connections) as two,
            ):
                patch.setattr(ledger, "deciding", deciding)
                seen.append(tried(two, other))
        return deciding(self, name, epoch, what)

    def tried(two: Any, other: str) -> str:
        try:
            if other == "mirror of the run":
                mirror(two.ledger, two.group, two.name, 2)
            elif other == "mirror by hand":
                send(region)
            else:
                region.reset()
        except (Fenced, Refused) as error:
            return str(error)
        return "done"

    monkeypatch.setattr(ledger, "deciding", between)
    if other == "reset":
        with pytest.raises(Superseded, match="nothing was withheld"):
            withhold(region, 2)
        assert words(region) == ["0", "1", "2", "3", "4", "5"]
    else:
        withhold(region, 2)
        assert words(region) == ["0", "1", "4", "5"]
    says = {
        "mirror of the run": "epoch 2 has passed",
        "mirror by hand": "is being withheld",
        "reset": "done",
    }
    assert says[other] in seen[0]


def test_a_batch_that_was_sent_meanwhile_is_not_withheld(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: another one sent it between the look and the fence."""
    unsendable(region)
    from tidemark.operations import withhold as module

    def late(*given: Any) -> Any:
        send(region)
        return topics_gone(*given)

    monkeypatch.setattr(module, "topics_gone", late)
    with pytest.raises(Refused, match=r"batch 2 is not the lowest .*: batch 3 was sent last"):
        withhold(region, 2)
    assert words(region) == ["0", "1", "2", "3", "4", "5"]
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    assert region.sql("SELECT state FROM tidemark.resets") == [("superseded",)]
    monkeypatch.undo()
    send(region)


def test_a_region_that_went_on_since_the_look_is_left_alone(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9, B2: the head that was looked at is not mirrored, nobody is fenced, nothing is written."""
    unsendable(region, 2)
    from tidemark.operations import withhold as module

    def late(*given: Any) -> Any:
        with pytest.raises(Refused, match="batch 2 published"):
            region.open("third")
        return topics_gone(*given)

    monkeypatch.setattr(module, "topics_gone", late)
    with pytest.raises(Superseded, match=r"epoch 2 passed meanwhile.* at 3\. Nothing was withheld"):
        withhold(region, 2)
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(3,)]
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []


def test_what_kafka_does_not_tell_withholds_nothing(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9, B16: it was told a moment ago, and may have been lost since."""
    unsendable(region, 2)
    known = Group.sent
    told = iter([known, known, known, lambda *_: set()])
    monkeypatch.setattr(Group, "sent", lambda self, places: next(told)(self, places))
    with pytest.raises(Refused, match="Kafka does not tell what was sent"):
        withhold(region, 2)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    monkeypatch.undo()
    withhold(region, 2)
    assert words(region) == ["0", "1", "4", "5"]


@pytest.mark.parametrize(
    ("point", "is_withheld"),
    [
        ("reset.decided", False),
        ("mirror.sent", False),
        ("withhold.commit.before", False),
        ("withhold.done", True),
    ],
)
def test_a_withholding_that_died_is_written_or_not(
    region: World, point: str, is_withheld: bool
) -> None:
    """B9: with its audit row, or without both; done again it goes on."""
    unsendable(region)
    with failpoint(point), pytest.raises(FailpointHit):
        withhold(region, 2)
    marked = region.sql("SELECT seq FROM tidemark.batches WHERE withheld")
    actions = region.sql("SELECT kind FROM tidemark.actions")
    assert (marked, actions) == (([(2,)], [("withhold",)]) if is_withheld else ([], []))
    if is_withheld:
        region.run("third")
    else:
        with pytest.raises(Refused, match="is being withheld"):
            send(region)
        withhold(region, 2)
    assert words(region) == ["0", "1", "4", "5"]


def test_a_commit_without_an_answer_is_looked_up(region: World) -> None:
    """B9, B2: the ledger tells whether the batch is withheld, and not the error."""
    unsendable(region)
    with failpoint("withhold.commit.lost"), pytest.raises(Unreachable, match="did not happen"):
        withhold(region, 2)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    assert words(region) == ["0", "1"]
    with failpoint("withhold.commit.sent"):
        withhold(region, 2)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == [(2,)]
    assert words(region) == ["0", "1", "4", "5"]


def test_only_published_batches_are_withheld(region: World) -> None:
    """Also by whoever writes the ledger by hand."""
    region.produce(2)
    region.open()
    with failpoint("publish.before"), pytest.raises(FailpointHit):
        region.drain()
    with pytest.raises(Exception, match="withheld_batch_was_published"):
        region.sql("UPDATE tidemark.batches SET withheld = true")
