"""What waits for a region's lock decides by what is there behind it, and not by what was before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.desk import CLUSTER, Desk
from tests.support.failpoint import meanwhile
from tests.support.shop import Shop
from tests.support.waiting import until

from tidemark.ledger import removing
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.errors import KeyTextsChanged
from tidemark.protocol.errors import ChangedSinceCheckpoint

Database = tuple[Engine, dict[str, Any]]
WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@contextmanager
def one_that_waits(desk: Desk, failpoint: str, act: Callable[[], object]) -> Iterator[None]:
    """Inside, somebody acts when the failpoint is reached, waits for the lock, and is then done."""
    threads = list[Thread]()

    def begin() -> None:
        threads.append(Thread(target=act))
        threads[0].start()
        until(lambda: desk.sql(WAITING) == [(1,)])

    with meanwhile(failpoint, begin):
        yield
    threads[0].join()


def test_an_open_that_waits_for_the_first_publish_keeps_its_keys_texts(
    ledger_database: Database,
) -> None:
    """Else a column of the key may get a type with other texts, and deleted keys are forgotten."""
    shop = Shop(ledger_database, "place")
    desk = shop.desk
    with one_that_waits(desk, "publish.moved", lambda: desk.open("other")):
        shop.publish([(1, None), (2, "b")], places=(20, 1))
    forms = f"SELECT table_oid IS NOT NULL, key_forms FROM tidemark.targets WHERE {desk.here}"
    assert desk.sql(forms) == [(True, {"id": "whole number"})]
    desk.sql(f"ALTER TABLE {desk.target} ALTER id TYPE numeric(30, 2)")
    with pytest.raises((ChangedSinceCheckpoint, KeyTextsChanged)):
        shop.publish([], [(1, "older, from another partition")], places=(15,))
    assert [*shop.rows()] == [2]


def test_a_region_that_waits_for_a_drop_of_its_name_begins_above_it(
    ledger_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zombies of the dropped one have its epoch, and its rows have its seqs."""
    desk = Desk(*ledger_database)
    desk.grow(2)
    desk.work(desk.open().epoch)
    desk.close()
    state = desk.ledger.region_state(desk.region)
    assert state
    again = Thread(
        target=lambda: desk.ledger.create_region(
            desk.region, group_id=desk.region, targets=desk.tables, cluster_id=CLUSTER
        )
    )

    def late(*given: Any) -> None:
        write_action(*given)
        again.start()
        until(lambda: desk.sql(WAITING) == [(1,)])

    monkeypatch.setattr("tidemark.ledger.removing.write_action", late)
    removing.drop_region(desk.engine, state, Order("a person", "a test"))
    again.join()
    made = desk.ledger.region_state(desk.region)
    assert made
    assert (made.epoch, made.next_seq) == (state.epoch, state.next_seq)
