"""The commands on a region with two targets."""

from pathlib import Path

import pytest
from tests.support.commands import answer, settle_in, tidemark
from tests.support.produce import produce
from tests.support.two_tables import NEWEST, NUMBERS, SETTINGS
from tests.support.world import World


@pytest.fixture
def two(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Ten records in a topic, and a project of its own."""
    world.settings |= SETTINGS
    settle_in(world, tmp_path, monkeypatch)
    produce(world.kafka, world.topic, [b'{"n": %d}' % n for n in range(10)])
    return world


def test_preview_and_check_show_each_target(two: World) -> None:
    """B8: before anything is written."""
    found = answer("preview", "dags/pipeline.yaml", "--limit", "4")
    numbers = {name: [row["n"] for row in rows] for name, rows in found["rows_by_target"].items()}
    assert numbers == {NUMBERS: [0, 1, 2, 3], NEWEST: [0, 1, 2, 3]}
    shown = tidemark("preview", "dags/pipeline.yaml", "--limit", "4").stdout
    assert "4 records read: 4 rows of newest, 4 rows of numbers, 0 dead letters" in shown
    told = tidemark("check", "dags/pipeline.yaml", "--no-spark").stdout
    assert '6 columns would make "public"."newest"' in " ".join(told.split())
    assert '4 columns would make "public"."numbers"' in " ".join(told.split())
    assert two.sql("SELECT to_regclass('public.newest'), to_regclass('public.numbers')") == [
        (None, None)
    ]


@pytest.mark.long
def test_each_table_that_does_not_fit_is_named(two: World) -> None:
    """B20: not one of them today and the next one tomorrow."""
    for name in (NEWEST, NUMBERS):
        two.sql(f"CREATE TABLE public.{name} (n smallint, batch_seq bigint)")
    told = " ".join(tidemark("check", "dags/pipeline.yaml", "--no-spark", exits=1).stdout.split())
    for name in (NEWEST, NUMBERS):
        assert f'"public"."{name}" does not fit' in told
