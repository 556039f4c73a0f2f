"""`tidemark withhold`: what a person is told, and what programs are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import (
    answer,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.sent import another_sends
from tests.support.world import World, dump


@pytest.fixture
def region(
    world: World, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    """Two batches are published and not sent; a row of the first one is gone."""
    world.settings["output"] = {"topic": topic(partitions=1)}
    world.produce(4)
    world.open(max_records=2)
    with another_sends(world):
        world.drain()
    world.sql("DELETE FROM public.records WHERE kafka_offset = 0")
    settle_in(world, tmp_path, monkeypatch)
    write_pipeline(world, output=world.settings["output"])
    return world


def test_a_batch_is_withheld_by_a_command(region: World) -> None:
    """B9, B16: a dry run first; then it is told in status, and what follows was sent."""
    before = dump(region.warehouse)
    dry = tidemark("withhold", region.region, "1").stdout
    assert "never sent  2 records; the rows stay in the target" in dry
    assert dry.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    told = refusal("withhold", region.region, "2", "--apply", exits=16)
    assert told.case == "BatchNotNextToSend"
    done = answer("withhold", region.region, "1", "--apply", "--why", "asked for")
    assert (done["applied"], done["seq"], done["records"], done["left"]) == (True, 1, 2, 1)
    shown = tidemark("status", region.region).stdout
    assert "sent up to batch 2, nothing is unsent, never to be sent: 1" in shown
    [action] = answer("region", "actions", region.region)
    assert (action["kind"], action["why"], action["details"]) == (
        "withhold",
        "asked for",
        {"seq": 1},
    )
