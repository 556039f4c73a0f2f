"""The picture of a real ledger's runs."""

from scripts.run_picture import picture
from tests.support.world import World


def test_runs_of_a_real_ledger_are_drawn(world: World) -> None:
    world.produce(7, partition=0)
    world.run(max_records=4)
    drawn = picture(world.connections[world.pipeline.warehouse], world.region)
    assert f"region {world.region}: 7 rows in 2 batches, 1 driver" in drawn
    assert drawn.count('class="batch"') == 2
