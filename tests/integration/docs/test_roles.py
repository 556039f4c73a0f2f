"""The roles of docs/roles.md, with exactly its grants: enough for their work, and for no more."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg2.errors
import pytest
from tests.support.executor import BAD, LocalExecutor
from tests.support.produce import produce
from tests.support.roles import REPLAYS, RoleWorld
from tests.support.world import fail

from tidemark.admin.replay import replay_dead_letters
from tidemark.check import _grants
from tidemark.check._logins import login_findings
from tidemark.check.findings import Finding, State
from tidemark.cli import asking
from tidemark.errors import JobFailed, Refused
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import ALL_DEAD_LETTERS
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.page.answers import answer
from tidemark.page.question import Question
from tidemark.page.seen import SeenRegion
from tidemark.postgres.errors import PostgresRightMissing
from tidemark.runs.region import region_of
from tidemark.settings.connections import Connection
from tidemark.settings.described import Described, Role
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.errors import ConnectionIncomplete
from tidemark.views.group_health import health_of
from tidemark.views.metrics import measures_of
from tidemark.views.status import unread


@pytest.fixture
def world(role_world: RoleWorld) -> RoleWorld:
    return role_world


def refuse(world: RoleWorld, role: str, statement: str) -> None:
    """The role has no right to it."""
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        world.as_role(role, statement)


def test_a_run_and_its_resets_need_no_more_than_the_grants(world: RoleWorld) -> None:
    """S01: as worker and executor; and nobody else has touched the database."""
    world.produce(5)
    produce(world.kafka, world.topic, [BAD], partition=1)
    assert world.run("first").rows == 5
    assert world.dead_letters() == [(1, 0)]
    world.produce(2, start=5)
    world.open("broken")
    world.before = fail
    with pytest.raises(JobFailed):
        world.drain("broken")
    world.reset("broken")
    world.before = lambda *_: None
    assert world.run("second").rows == 2
    assert world.reset(to=1).removed is not None
    assert world.run("third").rows == 2
    assert world.kafka_offsets() == world.ledger_offsets()


def test_executors_insert_into_their_batch_and_nothing_else(world: RoleWorld) -> None:
    """G127, S02: whatever a transform does with the login that its process has."""
    refused: list[str] = []

    def try_all(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        staging = batch.staging
        rows, other = (f'{staging.schema}."{name}"' for name in (staging.rows, "others_1_rows"))
        world.as_role("worker", f"CREATE TABLE {other} (LIKE {rows})")
        for statement in (
            f"SELECT * FROM {rows}",
            f"DELETE FROM {rows}",
            f"UPDATE {rows} SET member = 0",
            f"DROP TABLE {rows}",
            f"INSERT INTO {other} (member, attempt) VALUES (1, 1)",
            f"CREATE TABLE {staging.schema}.mine ()",
            "CREATE TABLE public.mine ()",
            "CREATE TEMPORARY TABLE mine ()",
            "SELECT * FROM tidemark.partitions",
            "SELECT * FROM tidemark.dead_letters",
            "UPDATE tidemark.partitions SET next_offset = 0",
            "SELECT * FROM public.flights",
            "INSERT INTO public.flights (batch_seq) VALUES (1)",
        ):
            refuse(world, "executor", statement)
            refused.append(statement)
        world.as_role("worker", f"ALTER TABLE {rows} ADD COLUMN writer text DEFAULT current_user")

    def look(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        rows = f'{batch.staging.schema}."{batch.staging.rows}"'
        assert world.as_role("worker", f"SELECT DISTINCT writer FROM {rows}") == [
            (world.login("executor")["user"],)
        ]
        world.as_role("worker", f"ALTER TABLE {rows} DROP COLUMN writer")

    world.produce(5)
    world.before, world.after = try_all, look
    assert world.run().rows == 5
    assert len(refused) == 13


@pytest.mark.long
def test_readers_see_all_and_change_nothing(
    world: RoleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status, metrics, the group, the doorbell, each page and the dry run of a rewind."""
    world.produce(5)
    produce(world.kafka, world.topic, [BAD], partition=1)
    world.run("first")
    seen = world.pipeline.for_readers
    known = {name: one for name, one in world.connections.items() if name.endswith("_reader")}
    monkeypatch.setattr(asking, "connections_of", lambda one: {
        name: known[name] for name in one.connections
    })  # fmt: skip
    [status] = asking.statuses_of([world.pipeline], count=True)
    assert (status.problem, status.targets[0].counted) == (None, 5)
    with region_of(seen, known) as region:
        assert measures_of(region, asking.status_in(region, asking.Brokers())).mirrored_seq == 1
        assert health_of(region).lag == 0
        assert unread(region.ledger, region.broker, region.name, [world.topic]).offsets == 0
        with pytest.raises(Refused):
            region.ledger.register_member(region.name, 1, uuid4(), "reader")
    described = Described.from_json(Described.of(seen, Role.run).to_json())
    assert described is not None
    regions = (SeenRegion(described, {Role.run: ("flights",)}),)
    for name, args in PAGES.items():
        body = answer(Question(name, regions, args), known).body
        assert "permission denied" not in body
    for statement in (
        "UPDATE tidemark.partitions SET next_offset = 0",
        "DELETE FROM tidemark.dead_letters",
        "DELETE FROM public.flights",
        "SELECT 1 FROM tidemark.regions FOR UPDATE",
        "CREATE TABLE tidemark_staging.mine ()",
        "CREATE TABLE tidemark.mine ()",
    ):
        refuse(world, "reader", statement)


@pytest.mark.long
def test_a_replay_reads_dead_letters_by_two_more_grants(world: RoleWorld) -> None:
    """Without them nothing changes, and the region is as well as before."""
    produce(world.kafka, world.topic, [BAD], partition=1)
    world.run("first")
    order = Order("test", "a test")
    given = world.pipeline, world.connections, ALL_DEAD_LETTERS, 9, order, world.executor_of
    with pytest.raises(PostgresRightMissing):
        replay_dead_letters(*given)
    assert world.sql("SELECT count(*) FROM tidemark.batches WHERE state = 'planned'") == [(0,)]
    world.grant(REPLAYS)
    replayed = replay_dead_letters(*given)
    assert (replayed.applied, replayed.chosen, replayed.replayed) == (True, 1, 0)
    world.produce(2)
    assert world.run("second").rows == 2


@pytest.mark.long
def test_workers_change_no_schema(world: RoleWorld) -> None:
    for statement in (
        "CREATE TABLE tidemark.mine ()",
        "ALTER TABLE tidemark.batches DROP COLUMN records",
        "TRUNCATE tidemark.dead_letters",
        "DROP TABLE public.flights",
        "TRUNCATE public.flights",
        "DELETE FROM tidemark.actions",
        "UPDATE tidemark.actions SET database_user = 'nobody'",
        "UPDATE tidemark.alembic_version SET version_num = 'mine'",
        "CREATE ROLE mine",
    ):
        refuse(world, "worker", statement)


EXECUTOR, READER = "Postgres login of executors", "Postgres login of readers"


def looking_up(world: RoleWorld, **changed: Connection) -> ConnectionOf:
    """The world's connections, by their ids; some are others."""
    known = world.connections | changed
    return partial(Connection.from_env, environ=dict(one.to_env() for one in known.values()))


def found_of(world: RoleWorld, **changed: Connection) -> dict[str, Finding]:
    """What a check says of the logins of executors and readers; some connections are others."""
    return {one.check: one for one in login_findings(world.pipeline, looking_up(world, **changed))}


@pytest.mark.parametrize(
    ("role", "needs"), [("worker", _grants.WORKER), ("reader", _grants.READER)]
)
def test_a_check_asks_for_what_the_roles_have(
    world: RoleWorld, role: str, needs: _grants.Needs
) -> None:
    """S01: right for right, on each table."""
    has = (
        "SELECT relname, array_agg(granted ORDER BY granted) FROM pg_class,"
        " unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS granted"
        " WHERE relnamespace = 'tidemark'::regnamespace AND relkind = 'r'"
        " AND has_table_privilege(oid, granted) GROUP BY 1"
    )
    found = dict(world.as_role(role, has))
    assert found == {table: sorted(needs.get(table, needs[""])) for table in found}
    assert needs.keys() - {""} <= found.keys()


@pytest.mark.long
def test_a_check_looks_at_each_login(world: RoleWorld) -> None:
    """S01: without it a batch is planned before anybody finds what a login lacks."""
    world.produce(1)
    world.run()
    found = found_of(world)
    executor, reader, database = (
        world.login("executor")["user"], world.login("reader")["user"], world.warehouse["dbname"],
    )  # fmt: skip
    assert {name: (one.state, one.fact) for name, one in found.items()} == {
        EXECUTOR: (State.ok, f"answers as {executor} in {database}; may stage rows"),
        READER: (State.ok, f"answers as {reader} in {database}; may read the ledger"),
        "Kafka login of executors": (State.ok, "may read and describe 1 topic"),
        "Kafka login of readers": (State.ok, "may describe 1 topic and the group"),
    }


LACKING = [
    ("executor", "REVOKE USAGE ON SCHEMA tidemark_staging FROM {role}", State.failed),
    ("executor", "REVOKE {role} FROM {worker}", State.warned),
    ("reader", "REVOKE USAGE ON SCHEMA tidemark FROM {role}", State.warned),
    ("reader", "REVOKE SELECT ON tidemark.runs FROM {role}", State.warned),
    ("reader", "REVOKE SELECT ON tidemark.region_status FROM {role}", State.warned),
    ("reader", "REVOKE INSERT, UPDATE ON tidemark.doorbells FROM {role}", State.warned),
    ("reader", "REVOKE SELECT ON public.flights FROM {role}", State.warned),
]


@pytest.mark.long
@pytest.mark.parametrize(("role", "revoked", "state"), LACKING)
def test_a_check_names_the_grant_that_a_login_lacks(
    world: RoleWorld, role: str, revoked: str, state: State
) -> None:
    """S01: what executors lack fails it, but for what a run can do without."""
    name, worker = world.login(role)["user"], world.login("worker")["user"]
    world.sql(revoked.format(role=f'"{name}"', worker=f'"{worker}"'))
    found = found_of(world)[f"Postgres login of {role}s"]
    assert found.state is state
    assert found.remedy.startswith("GRANT ")
    world.sql(found.remedy)
    assert {one.state for one in found_of(world).values()} == {State.ok}


@pytest.mark.long
def test_a_check_finds_a_login_that_leads_elsewhere(world: RoleWorld) -> None:
    """S01: into another database; another server: see test_failover.py."""
    executor = world.connections["tidemark_warehouse_executor"]
    elsewhere = found_of(world, tidemark_warehouse_executor=replace(executor, schema="postgres"))
    assert (elsewhere[EXECUTOR].state, elsewhere[EXECUTOR].remedy) == (
        State.failed,
        "let tidemark_warehouse_executor name the host, port and database of tidemark_warehouse",
    )


@pytest.mark.long
def test_a_check_finds_a_login_that_is_refused(world: RoleWorld) -> None:
    """S01: readers may be known to Airflow's pages alone, executors are part of every run."""
    executor, reader = (world.connections[f"tidemark_warehouse_{role}"]
                        for role in ("executor", "reader"))  # fmt: skip
    found = found_of(
        world,
        tidemark_warehouse_executor=replace(executor, password="wrong"),
        tidemark_warehouse_reader=replace(reader, password="wrong"),
    )
    states = [found[one].state for one in (EXECUTOR, READER)]
    assert states == [State.failed, State.warned]
    facts = [found[one].fact for one in (EXECUTOR, READER)]
    assert all("correct login and password of the connection" in fact for fact in facts)
    another = replace(executor, conn_id="another")
    found = found_of(world, tidemark_warehouse_executor=another, tidemark_warehouse_reader=another)
    assert [found[one].state for one in (EXECUTOR, READER)] == [State.failed, State.skipped]


@pytest.mark.long
def test_a_check_finds_a_role_that_is_not_the_login(world: RoleWorld) -> None:
    """S01: the driver grants to the login that the connection names."""
    executor, worker = world.login("executor")["user"], world.login("worker")["user"]
    world.sql(f'REVOKE "{executor}" FROM "{worker}"; GRANT "{worker}" TO "{executor}"')
    world.sql(f'ALTER ROLE "{executor}" SET role TO "{worker}"')
    found = found_of(world)[EXECUTOR]
    assert (found.state, found.fact) == (
        State.failed,
        f"tidemark_warehouse_executor names the login {executor}, and Postgres knows it as"
        f" {worker}",
    )


@pytest.mark.long
def test_a_login_that_is_not_named_can_be_granted_nothing(world: RoleWorld) -> None:
    known = world.connections
    nameless = replace(known["tidemark_warehouse_executor"], login=None)
    with (
        pytest.raises(ConnectionIncomplete),
        region_of(world.pipeline, known | {nameless.conn_id: nameless}),
    ):
        pass


PAGES: dict[str, dict[str, Any]] = {
    "regions": {"dag_id": None},
    "region": {"by_hand": {}, "shows_records": True},
    "live": {"lag": None},
    "charts": {},
    "now": {},
    "dry_run": {"to": "initial"},
    "lags": {},
}
