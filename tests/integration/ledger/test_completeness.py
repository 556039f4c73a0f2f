"""Up to when a region is complete, as the view tells it; each clause has a scenario that needs it.

That it is never said too early, whatever happens, is the ledger's model: tests/model.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.desk import TOPIC, Desk
from tests.support.world import World

from tidemark.errors import Superseded
from tidemark.ledger.queries import Completeness, LedgerQueries
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.overrides import ACCEPT_CORRUPT, ACCEPT_DATA_LOSS
from tidemark.model.plan import Bounds
from tidemark.runs import open as open_module
from tidemark.runs.region import Region

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
LOST = (ACCEPT_DATA_LOSS,)
VIEW = Path(__file__).parents[3] / "sql/migrations/0008_completeness.sql"


@pytest.fixture
def desk(ledger_database: tuple[Engine, dict[str, Any]]) -> Desk:
    """A region that never opened, with nothing to read."""
    return Desk(*ledger_database)


def told(desk: Desk) -> Completeness:
    return desk.ledger.queries.completeness([desk.region])[desk.region]


def asked(desk: Desk, number: int = -1) -> datetime:
    """When the open of that number was about to ask."""
    return sorted(desk.asked)[number]


def drain(desk: Desk, epoch: int) -> None:
    while desk.plan(epoch):
        desk.work(epoch)


def run(desk: Desk, **changes: Any) -> None:
    drain(desk, desk.open(**changes).epoch)


def nothing_is_told_before_all_ends_are_passed(desk: Desk) -> None:
    assert told(desk) == Completeness(desk.region, None, None, 0, 0, False, [])
    desk.grow(10, 0)
    desk.grow(10, 1)
    epoch = desk.open(bounds=Bounds(5)).epoch
    seen = [told(desk).complete_at]
    while desk.plan(epoch):
        desk.work(epoch)
        seen.append(told(desk).complete_at)
    assert seen == [None] * 4 + [asked(desk)]
    assert told(desk).epoch == epoch
    assert told(desk).dead_letters == len(desk.dead_letters()) > 0


def one_partition_is_not_all(desk: Desk) -> None:
    desk.grow(10, 0)
    desk.grow(10, 1)
    epoch = desk.open().epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    spans = [one.span for one in batch.spans]
    for attempt, span in enumerate(spans):
        assert told(desk).complete_at is None
        desk.publish(batch, desk.stage(batch, member, attempt, [span]))
    assert told(desk).complete_at == asked(desk)
    desk.grow(10, 1)
    desk.open("more")
    assert told(desk).complete_at == asked(desk, 0)


def each_partition_may_be_behind_by_itself(desk: Desk) -> None:
    """Of three runs that were refused, the first has passed its ends in both."""
    for _ in range(3):
        desk.grow(10, 0)
        desk.grow(10, 1)
        desk.open("refused")
    epoch = desk.open("works", Bounds(25)).epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    desk.publish(batch, desk.stage(batch, member))
    assert sorted(desk.offsets().values()) == [12, 13]
    assert told(desk).complete_at == asked(desk, 0)
    desk.work(epoch)
    assert told(desk).complete_at == asked(desk, 1)


def a_plan_is_no_row(desk: Desk) -> None:
    desk.grow(10, 0)
    epoch = desk.open().epoch
    desk.must_plan(epoch)
    assert told(desk).complete_at is None
    desk.reset()
    assert told(desk).complete_at is None


def what_comes_after_the_look_at_the_clock_is_not_promised(desk: Desk) -> None:
    """Nor does it do harm that the run reads it too."""
    desk.grow(5, 0)
    run(desk, meanwhile=lambda: desk.grow(5, 0))
    assert desk.offsets()[FIRST] == 10
    desk.grow(5, 0)
    assert told(desk).complete_at == asked(desk)
    assert desk.asked[asked(desk)][FIRST] == 5


def a_rewind_takes_it_back(desk: Desk) -> None:
    for _ in range(2):
        desk.grow(10, 0)
        run(desk)
    desk.rewind(1)
    assert told(desk).complete_at == asked(desk, 0)
    desk.rewind(0)
    assert told(desk).complete_at is None
    run(desk)
    assert told(desk).complete_at == asked(desk)


def an_idle_run_moves_it(desk: Desk) -> None:
    desk.grow(10, 0)
    run(desk)
    desk.open("idle")
    assert told(desk).complete_at == asked(desk)
    assert told(desk).seq == 1


def a_run_without_topics_tells_nothing(desk: Desk) -> None:
    """Fail closed, whatever an open comes to write."""
    desk.grow(10, 0)
    run(desk)
    desk.sql(f"DELETE FROM tidemark.run_targets WHERE {desk.here}")
    assert told(desk).complete_at is None


def a_run_of_an_older_version_tells_nothing(desk: Desk) -> None:
    for _ in range(2):
        desk.grow(10, 0)
        run(desk)
    desk.sql(f"UPDATE tidemark.runs SET asked_at = NULL WHERE {desk.here} AND epoch = 2")
    assert told(desk).complete_at == asked(desk, 0)


def a_partition_that_the_ledger_does_not_know_is_not_passed(desk: Desk) -> None:
    desk.grow(10, 0)
    run(desk)
    desk.sql(
        "INSERT INTO tidemark.run_targets (region, epoch, topic, partition, target_offset,"
        " high_watermark, stable_since) SELECT region, epoch, topic, 7, 0, 0, now()"
        f" FROM tidemark.run_targets WHERE {desk.here} AND partition = 0"
    )
    assert told(desk).complete_at is None


def another_log_of_the_same_name_is_not_what_was_asked(desk: Desk) -> None:
    """The topic was created again: its offsets are beyond the old ends, and prove nothing."""
    desk.grow(10, 0)
    desk.open("never worked")
    desk.topic_id, desk.ends = "id-2", {FIRST: 20, SECOND: 0}
    desk.log_starts = {FIRST: 15, SECOND: 0}
    epoch = desk.open("told", Bounds(2), LOST).epoch
    desk.work(epoch)
    assert desk.offsets()[FIRST] == 17
    assert told(desk).complete_at is None
    drain(desk, epoch)
    assert told(desk).complete_at == asked(desk)
    assert told(desk).accepted == [
        f"{FIRST} of topic id id-1 from 0 on",
        f"{SECOND} of topic id id-1 from 0 on",
    ]


def what_was_complete_stays_so_when_a_later_log_is_lost(desk: Desk) -> None:
    desk.grow(10, 0)
    run(desk)
    desk.topic_id, desk.ends = "id-2", {FIRST: 3, SECOND: 0}
    epoch = desk.open("told", overrides=LOST).epoch
    assert (told(desk).complete_at, told(desk).accepted) == (asked(desk, 0), [])
    drain(desk, epoch)
    assert told(desk).complete_at == asked(desk)


def an_accepted_gap_is_named(desk: Desk) -> None:
    desk.grow(10, 0)
    run(desk)
    desk.grow(20, 0)
    desk.log_starts[FIRST] = 15
    epoch = desk.open("told", overrides=LOST).epoch
    assert told(desk).accepted == []
    drain(desk, epoch)
    assert told(desk).accepted == [str(Span(*FIRST, 10, 15))]
    desk.grow(5, 0)
    run(desk)
    assert told(desk).accepted == [str(Span(*FIRST, 10, 15))]


def a_corrupt_range_is_named(desk: Desk) -> None:
    desk.grow(30, 0)
    corrupt = str(Span(*FIRST, 10, 20))
    epoch = desk.open("told", Bounds(10), (f"{ACCEPT_CORRUPT} {corrupt}",)).epoch
    desk.work(epoch)
    assert told(desk).complete_at is None
    drain(desk, epoch)
    assert (told(desk).complete_at, told(desk).accepted) == (asked(desk), [corrupt])


def deletions_that_may_be_gone_are_named(desk: Desk) -> None:
    desk.deletions = {TOPIC: 3_600_000}
    desk.grow(10, 0)
    run(desk)
    assert told(desk).accepted == []
    desk.grow(10, 0)
    desk.rest(minutes=61)
    run(desk, overrides=LOST)
    assert told(desk).accepted == [f"deletions of {FIRST}"]


def an_open_transaction_is_told(desk: Desk) -> None:
    desk.grow(10, 0)
    run(desk)
    assert not told(desk).transactions_were_open
    desk.sql(
        "UPDATE tidemark.run_targets SET high_watermark = high_watermark + 3"
        f" WHERE {desk.here} AND partition = 0"
    )
    assert told(desk).transactions_were_open


SCENARIOS: list[Callable[[Desk], None]] = [
    nothing_is_told_before_all_ends_are_passed,
    one_partition_is_not_all,
    each_partition_may_be_behind_by_itself,
    a_plan_is_no_row,
    what_comes_after_the_look_at_the_clock_is_not_promised,
    a_rewind_takes_it_back,
    an_idle_run_moves_it,
    a_run_without_topics_tells_nothing,
    a_run_of_an_older_version_tells_nothing,
    a_partition_that_the_ledger_does_not_know_is_not_passed,
    another_log_of_the_same_name_is_not_what_was_asked,
    what_was_complete_stays_so_when_a_later_log_is_lost,
    an_accepted_gap_is_named,
    a_corrupt_range_is_named,
    deletions_that_may_be_gone_are_named,
    an_open_transaction_is_told,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_complete_is_what_a_consumer_could_see(
    desk: Desk, scenario: Callable[[Desk], None]
) -> None:
    """B27: up to the time that the ledger tells, all is there; what is not whole is named."""
    scenario(desk)


SEEDED = [
    ("SELECT n.epoch, n.asked_at, u.topic", "SELECT n.epoch, now(), u.topic",
     nothing_is_told_before_all_ends_are_passed),
    ("h.next_offset < t.target_offset", "h.next_offset <= 0", one_partition_is_not_all),
    ("NOT EXISTS (SELECT FROM tidemark.unpassed", "EXISTS (SELECT FROM tidemark.unpassed",
     an_idle_run_moves_it),
    ("u.epoch = n.epoch\n                              AND", "true AND", a_rewind_takes_it_back),
    ("u.epoch = n.epoch\n                           ORDER", "false ORDER",
     one_partition_is_not_all),
    ("looked l WHERE l.topic IS NULL", "looked l WHERE true", one_partition_is_not_all),
    ("p.ended_epoch IS NULL OR p.ended_epoch > t.epoch", "p.ended_epoch IS NULL",
     another_log_of_the_same_name_is_not_what_was_asked),
    ("ORDER BY p.partition_id LIMIT 1) h", "ORDER BY p.partition_id DESC LIMIT 1) h",
     another_log_of_the_same_name_is_not_what_was_asked),
    ("p.ended_epoch > t.epoch", "p.ended_epoch >= t.epoch",
     another_log_of_the_same_name_is_not_what_was_asked),
    ("h.next_offset IS NULL OR ", "",
     a_partition_that_the_ledger_does_not_know_is_not_passed),
    ("AND n.asked_at IS NOT NULL", "", a_run_of_an_older_version_tells_nothing),
    ("AND EXISTS (SELECT FROM tidemark.run_targets t WHERE t.region = n.region"
     " AND t.epoch = n.epoch)", "", a_run_without_topics_tells_nothing),
    ("ORDER BY n.epoch DESC", "ORDER BY n.epoch", a_rewind_takes_it_back),
    ("p.ended_epoch <= c.epoch", "true", an_accepted_gap_is_named),
    ("n.initial_offset > p.next_offset", "false", a_corrupt_range_is_named),
    ("AND t.deletions_accepted", "AND false", deletions_that_may_be_gone_are_named),
    ("t.high_watermark > t.target_offset", "false", an_open_transaction_is_told),
]  # fmt: skip
"""What makes the view lie, and the scenario that finds it."""


@pytest.mark.parametrize(("words", "others", "scenario"), SEEDED)
def test_each_clause_of_the_view_is_needed(
    desk: Desk, words: str, others: str, scenario: Callable[[Desk], None]
) -> None:
    """G217: with another clause the scenario does not hold."""
    right = VIEW.read_text().replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
    right = right.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS")
    assert right.count(words) == 1
    desk.sql(right.replace(words, others))
    try:
        with pytest.raises(AssertionError):
            scenario(desk)
    finally:
        desk.sql(right)


PARTITIONS, RUNS = 20, 100


def test_a_region_far_behind_is_looked_up_fast(desk: Desk) -> None:
    """G227: one partition stands still for many runs, and a rewind asks under the region lock."""
    for number in range(PARTITIONS):
        place = TopicPartition(TOPIC, number)
        desk.ends[place] = desk.log_starts[place] = 0
    for _ in range(RUNS):
        desk.grow(1, 0)
        desk.grow(1, PARTITIONS - 1)
        desk.open()
    desk.sql(
        f"UPDATE tidemark.partitions SET next_offset = {RUNS}"
        f" WHERE {desk.here} AND partition < {PARTITIONS - 1}"
    )
    [([plan],)] = desk.sql(
        "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)"
        f" SELECT complete_at FROM tidemark.completeness WHERE {desk.here}"
    )
    assert 0 < sum(looks_at(plan["Plan"], "partitions")) < 4 * (PARTITIONS + RUNS)


def looks_at(node: dict[str, Any], table: str) -> Iterator[int]:
    """How often each node of a plan has looked into a table."""
    if node.get("Relation Name") == table:
        yield node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from looks_at(child, table)


def test_an_open_looks_at_the_clock_before_it_asks_kafka(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G218: else a record that came between the two would be promised, and may not be there."""
    before: list[datetime] = []
    real = open_module.opening_facts

    def later(region: Region, overrides: Sequence[str]) -> Facts:
        before.append(region.ledger.queries.now())
        return real(region, overrides)

    monkeypatch.setattr(open_module, "opening_facts", later)
    world.produce(3)
    world.run()
    [(complete_at,)] = world.sql("SELECT complete_at FROM tidemark.completeness")
    assert complete_at <= before[0]


def test_a_later_epoch_has_a_later_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """G218: an open that another one overtakes at the clock takes no epoch."""
    real, waiting = LedgerQueries.now, [True]

    def overtaken(queries: LedgerQueries) -> datetime:
        found = real(queries)
        if waiting and waiting.pop():
            world.run("other")
        return found

    world.produce(3)
    monkeypatch.setattr(LedgerQueries, "now", overtaken)
    with pytest.raises(Superseded):
        world.open("slow")
    monkeypatch.undo()
    assert world.sql("SELECT epoch, head_seq FROM tidemark.regions") == [(1, 1)]
