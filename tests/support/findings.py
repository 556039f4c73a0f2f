"""A check without the command line, as a task makes one: findings are data."""

from collections.abc import Mapping
from functools import partial

from tests.support.world import World

from tidemark.check.check import findings_of
from tidemark.check.findings import Finding
from tidemark.settings.connections import Connection


def found_in(world: World, connections: Mapping[str, Connection]) -> dict[str, list[Finding]]:
    """What a task that has these connections finds, by group."""
    environment = dict(one.to_env() for one in connections.values())
    groups = findings_of(
        world.pipeline,
        partial(Connection.from_env, environ=environment),
        world.executor_of,
        prepare=lambda _: None,
        with_spark=True,
    )
    return {group: list(findings) for group, findings in groups}
