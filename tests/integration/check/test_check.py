"""A check without the command line, as a task makes one: findings are data."""

from functools import partial

from tests.support.world import World

from tidemark.check.check import findings_of
from tidemark.check.findings import Finding, State
from tidemark.settings.connections import Connection


def found_in(world: World, connections: dict[str, Connection]) -> dict[str, list[Finding]]:
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


def test_a_task_is_told_of_all_that_a_run_needs(world: World) -> None:
    world.produce(2)
    world.run()
    found = found_in(world, world.connections)
    assert [*found] == [
        "Kafka", "the output topic", "Postgres", "the other logins", "encryption", "the region",
        "the job",
    ]  # fmt: skip
    states = {one.state for findings in found.values() for one in findings}
    assert states == {State.ok, State.skipped}
    [*_, output] = found["the job"]
    assert output == Finding("output", State.ok, '4 columns fit "public"."records"')


def test_a_task_is_told_of_a_connection_that_it_lacks(world: World) -> None:
    """The other parts are looked at all the same."""
    kafka = world.connections["tidemark_kafka"]
    found = found_in(world, {kafka.conn_id: kafka})
    [fault] = found["Postgres"]
    assert (fault.state, "AIRFLOW_CONN_TIDEMARK_WAREHOUSE" in fault.fact) == (State.failed, True)
    [region] = found["the region"]
    assert (region.state, region.fact) == (State.skipped, "not asked: a connection is missing")
    assert all(one.state is not State.failed for one in found["Kafka"])
