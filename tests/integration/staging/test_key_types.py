"""A key's column gets another type: the ledger knows keys by texts."""

from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.desk import TOPIC
from tests.support.shop import Shop

from tidemark.check._job import FoundRegion
from tidemark.ledger.errors import KeyTextsChanged
from tidemark.model.plan import Bounds
from tidemark.protocol.changes import changes
from tidemark.protocol.errors import ChangedSinceCheckpoint, KeyDiffers

WAS, NOW = "whole number", "number with 2 digits behind the point"


@pytest.fixture
def deleted(ledger_database: tuple[Engine, dict[str, Any]]) -> Shop:
    """Key 1 was deleted by a row of partition 0 that is later than what is still to come."""
    shop = Shop(ledger_database, "place")
    shop.publish([(1, "a")], [], places=[10])
    shop.publish([(1, None)], [], places=[20])
    return shop


def retype(shop: Shop, kind: str) -> None:
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ALTER id TYPE {kind}")


def test_a_type_with_other_texts_stops_an_open(deleted: Shop) -> None:
    """B16: the deletion would be unknown, and an older row would bring the key back."""
    retype(deleted, "numeric(21,2)")
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        deleted.publish([], [(1, "late and older")], places=[15])
    assert refused.value.changes == (KeyDiffers(str(deleted.desk.target), "id", WAS, NOW),)
    retype(deleted, "bigint")
    deleted.publish_rows([(1, "late and older", 15, False, TOPIC, 1, 0)])
    assert deleted.rows() == {}


def test_check_tells_it_before(deleted: Shop) -> None:
    """B16: without the region's lock."""
    retype(deleted, "numeric(21,2)")
    desk = deleted.desk
    state = desk.ledger.known_region(desk.region)
    assert state
    looked = FoundRegion(state, {}, desk.ledger)
    assert [*changes(looked, {}, desk.tables)] == [KeyDiffers(str(desk.target), "id", WAS, NOW)]


def test_a_type_with_other_texts_stops_a_publish(deleted: Shop) -> None:
    """B16: it comes after the open."""
    desk = deleted.desk
    desk.grow(1, 1)
    batch = desk.must_plan(desk.open("next", Bounds(1000)).epoch)
    contribution = desk.stage(batch, desk.join(desk.epoch), rows=[])
    retype(deleted, "numeric(21,2)")
    with pytest.raises(KeyTextsChanged) as refused:
        desk.publish(batch, contribution)
    assert refused.value.found == {"id": NOW}
    retype(deleted, "bigint")
    desk.publish(batch, contribution)


def test_a_type_with_the_same_texts_goes_on(deleted: Shop) -> None:
    """B16: a number that gets more digits, and a domain over it."""
    domain = f"public.d_{deleted.desk.region}"
    deleted.desk.sql(f"CREATE DOMAIN {domain} AS numeric(30,0)")
    for kind in ("numeric(20,0)", domain):
        retype(deleted, kind)
        deleted.publish([], [(1, "late and older"), (2, "new")], places=[15, 15])
        assert deleted.rows() == {2: "new"}


def test_a_person_may_accept_it(deleted: Shop) -> None:
    """B16: from then on the new texts count, and the old type is the other one."""
    retype(deleted, "numeric(21,2)")
    desk = deleted.desk
    desk.open("told", overrides=("accept_changes",))
    deleted.publish([(2, "b")], places=[30])
    deleted.publish([(2, None)], places=[40])
    deleted.publish([], [(2, "late and older")], places=[35])
    assert deleted.rows() == {}
    retype(deleted, "bigint")
    with pytest.raises(ChangedSinceCheckpoint):
        desk.open("back")


def test_what_a_person_accepts_is_what_the_open_found(deleted: Shop) -> None:
    """B16: not what somebody makes of it before the next publish."""
    retype(deleted, "numeric(21,2)")
    desk = deleted.desk
    desk.grow(1, 1)
    batch = desk.must_plan(desk.open("told", overrides=("accept_changes",)).epoch)
    retype(deleted, "bigint")
    with pytest.raises(KeyTextsChanged):
        desk.publish(batch, desk.stage(batch, desk.join(desk.epoch), rows=[]))


def test_another_key_is_not_compared(deleted: Shop) -> None:
    """B16: the fingerprint tells of it."""
    desk = deleted.desk
    desk.sql(
        f"ALTER TABLE {desk.target} DROP CONSTRAINT {desk.target.table}_pkey, DROP id,"
        " ADD UNIQUE (word), ALTER word SET NOT NULL"
    )
    desk.open("next")
