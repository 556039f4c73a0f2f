"""A password that changes in the midst of a run."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.databases import administer
from tests.support.executor import LocalExecutor
from tests.support.world import World

from tidemark.errors import TidemarkError, Unreachable
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark_local.stack import LocalStack

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %(who)s"


@pytest.mark.long
@pytest.mark.parametrize("at", ["before the tasks", "after the tasks"])
def test_a_drain_whose_password_changes_ends_for_a_retry_which_goes_on_with_the_new_one(
    role_prefix: str, world: World, stack: LocalStack, at: str
) -> None:
    """Its sessions were ended, so driver and tasks log in again, with what they began with."""
    worker, mine = f"{role_prefix}worker", str(world.warehouse["user"])
    administer(stack.postgres, "CREATE ROLE {} LOGIN PASSWORD 'before' IN ROLE {}", worker, mine)
    world.produce(3)
    owner = world.warehouse
    world.warehouse = owner | {"user": worker, "password": "before"}

    def rotated(_: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if batch.seq == 2:
            administer(stack.postgres, "ALTER ROLE {} PASSWORD 'after'", worker)
            administer(stack.postgres, END, who=worker)

    before, after = (rotated, world.after) if at == "before the tasks" else (world.before, rotated)
    beginning = replace(world, before=before, after=after)
    beginning.open("run", max_records=1)
    with pytest.raises(TidemarkError) as met:
        beginning.drain("run")
    assert met.value.retry_may_help
    assert isinstance(met.value, Unreachable)
    world.warehouse = owner | {"user": worker, "password": "after"}
    world.drain("run")
    world.close("run")
    assert world.rows() == [(0, 0), (0, 1), (0, 2)]
