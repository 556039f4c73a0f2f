"""A batch that is withheld from the output topic: the way out where it can't be sent."""

import json
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest
from tests.support.failpoint import failpoint
from tests.support.sent import another_sends, sent_to
from tests.support.world import World, dump

from tidemark.admin import withhold as withhold_module
from tidemark.admin.drop import drop_region
from tidemark.admin.errors import MirrorDuringWithholding, NothingToWithhold
from tidemark.admin.mirror import mirror_region
from tidemark.admin.withhold import WithholdReport, withhold_batch
from tidemark.failpoints import FailpointHit
from tidemark.kafka.errors import MirrorWriterFenced
from tidemark.kafka.group import Group
from tidemark.ledger.actions import Order
from tidemark.ledger.errors import RegionNotReadBack
from tidemark.ledger.queries import LedgerQueries
from tidemark.model.output import Topics
from tidemark.protocol.errors import (
    BatchNotNextToSend,
    LookedTooEarly,
    MirrorEpochPassed,
    RunUnfinished,
    SettleOvertaken,
    WithholdSentUnknown,
)
from tidemark.protocol.mirror import mirror
from tidemark.runs._output import OutputSnapshot, RegionOutput
from tidemark.runs.region import region_of, topics_gone
from tidemark.staging.errors import RowsToSendDiffer
from tidemark.views.status import in_ledger, output_status

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


def lacks(act: Callable[[], object]) -> tuple[int, int, int]:
    """The batch that can't be sent, how many rows of it were published, and how many are there."""
    with pytest.raises(RowsToSendDiffer) as refused:
        act()
    return refused.value.seq, refused.value.published, refused.value.found


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
        with pytest.raises(RunUnfinished) as unfinished:
            region.close("second")
        here = {"region": region.region, "target": '"public"."records"'}
        why = RowsToSendDiffer(**here, seq=lacking[0], published=2, found=1)
        assert unfinished.value.reasons == (str(why),)


def test_what_can_not_be_sent_is_withheld_and_what_follows_is_sent(region: World) -> None:
    """B9: it is told in the ledger, in status and among the actions; runs are green again."""
    unsendable(region, 2)
    assert lacks(lambda: region.open("third")) == (2, 2, 1)
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
        [action] = LedgerQueries(one.ledger.engine).actions(region.region, 9)
    assert found is not None
    assert (found.sent_seq, found.unsent_batches, found.withheld_seqs) == (4, 0, (2,))
    assert (action.kind, action.requested_by, action.why) == ("withhold", *vars_of(ORDER))
    assert action.details == {"seq": 2}
    resets = "SELECT state, kind, overrides FROM tidemark.resets"
    assert region.sql(resets) == [("finished", "withhold", [])]


def vars_of(order: Order) -> tuple[str, str]:
    return order.who, order.why


def test_each_batch_that_can_not_be_sent_needs_its_own_word(region: World) -> None:
    """B9, G89: the error names the next one, and what was withheld stays so."""
    unsendable(region, 2, 3)
    assert lacks(lambda: withhold(region, 2)) == (3, 2, 1)
    assert words(region) == ["0", "1"]
    with region_of(region.pipeline, region.connections) as one:
        found = output_status(one, in_ledger(one).partitions)
    assert found is not None
    assert (found.unsent_batches, found.unsent_records, found.withheld_seqs) == (1, 2, (2,))
    with pytest.raises(RegionNotReadBack):  # Kafka stands at batch 1: who starts there reads more
        drop_region(region.connections["tidemark_warehouse"], region.region, ORDER)
    withhold(region, 3)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld ORDER BY 1") == [(2,), (3,)]
    region.run("third")
    assert words(region) == ["0", "1"]


@pytest.mark.long
def test_only_the_lowest_unsent_batch_is_withheld(region: World) -> None:
    """B9: one that was sent, has one before it, or is none is refused; nothing is written."""
    unsendable(region, 2)
    before = dump(region.warehouse)
    for seq in (1, 3, 4, 99):
        for order in (None, ORDER):
            with pytest.raises(BatchNotNextToSend) as refused:
                withhold(region, seq, order)
            assert (refused.value.seq, refused.value.sent_seq) == (seq, 1)
    assert dump(region.warehouse) == before


def test_the_ledger_itself_withholds_the_lowest_alone(region: World) -> None:
    """B9: whatever was looked at before; and it withholds published batches alone."""
    unsendable(region, 2)
    with region_of(region.pipeline, region.connections) as one:
        for seq in (1, 3, 99):
            with one.ledger.deciding(one.name, 2, "withhold") as tx:
                assert not tx.withhold(seq, 1, *vars_of(ORDER))
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    assert region.sql("SELECT kind FROM tidemark.actions") == []
    region.sql("DELETE FROM public.records")
    region.produce(1, start=6)
    region.reset(to=0, overrides=["accept_resend", "accept_changes"])
    region.open("third")
    with failpoint("publish.before"), pytest.raises(FailpointHit):
        region.drain("third")
    with pytest.raises(psycopg2.errors.CheckViolation) as refused:
        region.sql("UPDATE tidemark.batches SET withheld = true WHERE state = 'planned'")
    assert refused.value.diag.constraint_name == "withheld_batch_was_published"


@pytest.mark.long
def test_batches_that_were_rewound_stand_before_none(region: World) -> None:
    """B9, B4: the lowest unsent one is the lowest of those that count; they are not withheld."""
    unsendable(region, 3)
    region.reset(to=1, overrides=["accept_resend", "accept_changes"])
    for seq in (2, 3):
        with pytest.raises(BatchNotNextToSend):
            withhold(region, seq)
    region.open("third", max_records=2)
    with another_sends(region):
        region.drain("third")
    region.sql("DELETE FROM public.records WHERE batch_seq = 4")
    withhold(region, 4)
    assert words(region) == ["0", "1", "3", "4", "5"], "the first one after a reset is small"


@pytest.mark.long
def test_a_withheld_batch_that_is_rewound_is_read_and_sent_anew(region: World) -> None:
    """B9, B4: the word was of that batch, not of its records."""
    unsendable(region, 2)
    withhold(region, 2)
    region.reset(to=1, overrides=["accept_resend", "accept_changes"])
    region.run("third")
    assert words(region) == ["0", "1", "4", "5", "2", "3", "4", "5"]


@pytest.mark.long
def test_without_an_output_there_is_nothing_to_withhold(world: World) -> None:
    world.produce(1)
    world.run()
    with pytest.raises(NothingToWithhold):
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
    with (
        region_of(region.pipeline, region.connections) as one,
        pytest.raises(MirrorWriterFenced),
    ):
        mirror(one.ledger, one.group, one.name, 2)
    assert words(region) == ["0", "1", "4", "5"]


@pytest.mark.parametrize("other", ["mirrors", "reset"])
def test_nobody_sends_the_batch_while_it_is_being_withheld(
    region: World, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """B9: after it was seen as unsent, and before that is written; unless a reset takes over."""
    unsendable(region)
    with region_of(region.pipeline, region.connections) as one:
        ledger = type(one.ledger)
    deciding = ledger.deciding

    def between(self: Any, name: str, epoch: int, what: str) -> Any:
        if what == "withhold":
            with (
                monkeypatch.context() as patch,
                region_of(region.pipeline, region.connections) as two,
            ):
                patch.setattr(ledger, "deciding", deciding)
                if other == "reset":
                    region.reset()
                else:
                    with pytest.raises(MirrorEpochPassed):  # the run's
                        mirror(two.ledger, two.group, two.name, 2)
                    with pytest.raises(MirrorDuringWithholding):
                        send(region)
        return deciding(self, name, epoch, what)

    monkeypatch.setattr(ledger, "deciding", between)
    if other == "reset":
        with pytest.raises(SettleOvertaken):
            withhold(region, 2)
        assert words(region) == ["0", "1", "2", "3", "4", "5"]
    else:
        withhold(region, 2)
        assert words(region) == ["0", "1", "4", "5"]


def test_a_batch_that_was_sent_meanwhile_is_not_withheld(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: another one sent it between the look and the fence."""
    unsendable(region)

    def late(*given: Any) -> Any:
        send(region)
        return topics_gone(*given)

    monkeypatch.setattr(withhold_module, "topics_gone", late)
    with pytest.raises(BatchNotNextToSend) as refused:
        withhold(region, 2)
    assert refused.value.sent_seq == 3
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

    def late(*given: Any) -> Any:
        assert lacks(lambda: region.open("third")) == (2, 2, 1)
        return topics_gone(*given)

    monkeypatch.setattr(withhold_module, "topics_gone", late)
    with pytest.raises(LookedTooEarly) as early:
        withhold(region, 2)
    assert (early.value.epoch, early.value.now_at) == (2, 3)
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(3,)]
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []


@pytest.mark.long
def test_what_kafka_does_not_tell_withholds_nothing(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9, B16: it was told a moment ago, and may have been lost since."""
    unsendable(region, 2)
    known = Group.sent
    told = iter([*(known,) * 5, lambda *_: set()])
    monkeypatch.setattr(Group, "sent", lambda self, places: next(told)(self, places))
    with pytest.raises(WithholdSentUnknown):
        withhold(region, 2)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
    monkeypatch.undo()
    withhold(region, 2)
    assert words(region) == ["0", "1", "4", "5"]


@pytest.mark.long
def test_a_dry_run_writes_nothing_where_a_person_says_what_was_sent(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: the seqs that consumers may have met are kept by what sends, and not by a look."""
    unsendable(region, 2)
    region.settings["output"]["resume_after"] = 1
    raised: list[Any] = []
    monkeypatch.setattr(Group, "sent", lambda *_: set())
    monkeypatch.setattr(RegionOutput, "raise_next_seq", lambda *given: raised.append(given))
    before = dump(region.warehouse)
    assert withhold(region, 2, None).sent_seq == 1
    assert (dump(region.warehouse), raised) == (before, [])


@pytest.mark.long
def test_a_withholding_that_died_is_written_or_not(region: World) -> None:
    """B9: with its audit row, or without both; done again it goes on."""
    unsendable(region)
    for point in ("reset.decided", "mirror.sent", "withhold.commit.before"):
        with failpoint(point), pytest.raises(FailpointHit):
            withhold(region, 2)
        assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == []
        assert region.sql("SELECT kind FROM tidemark.actions") == []
        with pytest.raises(MirrorDuringWithholding):
            send(region)
    with failpoint("withhold.done"), pytest.raises(FailpointHit):
        withhold(region, 2)
    assert region.sql("SELECT seq FROM tidemark.batches WHERE withheld") == [(2,)]
    assert region.sql("SELECT kind FROM tidemark.actions") == [("withhold",)]
    region.run("third")
    assert words(region) == ["0", "1", "4", "5"]
