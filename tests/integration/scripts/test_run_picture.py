"""The picture of a real ledger's runs."""

from scripts.run_picture import picture
from tests.support.world import World

from tidemark.postgres.parameters import postgres_parameters


def test_runs_of_a_real_ledger_are_drawn(world: World) -> None:
    world.produce(7, partition=0)
    world.run(max_records=4)
    warehouse = postgres_parameters(world.connections[world.pipeline.warehouse])
    drawn = picture(warehouse, world.region)
    assert f"region {world.region}: 7 rows in 2 batches, 1 drivers" in drawn
    assert drawn.count('class="batch"') == 2
