"""Logins by tokens and by passwords that do not last, in every process that logs in.

Kafka takes tokens that live for seconds, and ends each session with its token. The role in
Postgres gets another password again and again, and its sessions are ended.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.callbacks import FOLDER, HEADER, PATHS, Desk
from tests.support.commands import answer, refusal, settle_in, tidemark
from tests.support.databases import administer
from tests.support.executor import LocalExecutor
from tests.support.region import ask, kafka_connection, postgres_connection
from tests.support.roles import roles_on
from tests.support.token_broker import TokenBroker
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.world import World

from tidemark.errors import TidemarkError, Unreachable
from tidemark.kafka._client import _KEPT, idle_client
from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import BrokersUnreachable
from tidemark.kafka.facts import Broker
from tidemark.kafka.spans import read_spans
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.page.answers import answer as answer_page
from tidemark.page.question import Question, asked
from tidemark.page.seen import SeenRegion
from tidemark.settings.connections import Connection
from tidemark.settings.described import Described, Role
from tidemark.tokens.callbacks import LISTED
from tidemark.tokens.errors import CallbackFailed, CallbackNotListed
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

SECONDS = 10.0
"""How long a token lives: Kafka's client asks for another after eight, and logs in again after nine
of them, in time also on a busy machine."""
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "oauth_cb": PATHS[0],
}
BY_AIRFLOW = "AIRFLOW__TIDEMARK__TOKEN_CALLBACKS"
KAFKA, WAREHOUSE = "tidemark_kafka", "tidemark_warehouse"

PAGES: dict[str, dict[str, Any]] = {
    "region": {"by_hand": {}, "shows_records": True},
    "live": {"lag": None},
    "dry_run": {"to": "last"},
}

DAG = """
from pathlib import Path
from tidemark.airflow import pipeline_dag

dag = pipeline_dag(Path(__file__).with_name("turning.yaml"), dag_id="turning")
"""
TRANSFORM = """
import pyarrow as pa
from tests.support.callbacks import Desk

def transform(rows: pa.RecordBatch) -> pa.RecordBatch:
    if rows.num_rows:
        if rows["kafka_offset"][0].as_py() == 1:
            Desk.here().outlive()
        Desk.here().rotate()
    return rows
"""
"""Of three batches each begins with passwords that are past, and the last one with tokens too."""


@dataclass
class TokenWorld(World):
    """A region whose connections have no secret, but the names of what makes them."""

    guarded: str = ""
    role: str = ""
    administrator: dict[str, Any] = field(default_factory=dict)

    @property
    def connections(self) -> dict[str, Connection]:
        login = postgres_connection(self.warehouse | {"user": self.role})
        return {
            KAFKA: kafka_connection(self.guarded, **OAUTH),
            WAREHOUSE: replace(login, password=None, extra={"password_cb": PATHS[1]}),
        }

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement as the administrator, whose password lasts."""
        return ask(self.administrator, statement, values)


@pytest.fixture(scope="module")
def broker(stack: LocalStack) -> Iterator[TokenBroker]:
    broker = TokenBroker(stack.folder, node=3)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    return Desk(folder)


@pytest.fixture
def role(stack: LocalStack) -> Iterator[str]:
    """Outlives the database, whose tables it owns."""
    with roles_on(stack.postgres) as prefix:
        yield f"{prefix}worker"


@pytest.fixture
def world(
    broker: TokenBroker,
    role: str,
    warehouse: dict[str, Any],
    group: str,
    desk: Desk,
    stack: LocalStack,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TokenWorld]:
    owner = str(warehouse["user"])
    administer(stack.postgres, "CREATE ROLE {} LOGIN IN ROLE {}", role, owner)
    desk.open(stack.postgres.parameters("postgres", ADMIN), role, SECONDS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(admin, NewTopic(group, 2, 1))
    world = TokenWorld(
        broker.bootstrap,
        warehouse,
        group,
        group,
        guarded=broker.guarded,
        role=role,
        administrator=stack.postgres.parameters(warehouse["dbname"], ADMIN),
    )
    for connection in world.connections.values():
        monkeypatch.setenv(*connection.to_env())
    monkeypatch.setenv(LISTED, ",".join(PATHS))
    monkeypatch.setenv(BY_AIRFLOW, ",".join(PATHS))
    yield world
    while client := idle_client(_KEPT):  # it would ask for tokens without end
        client.end()
    admin.delete_topics([group])[group].exception(120)


def turn(_: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
    """A hook: what this process has logged in with is past."""
    if batch.seq == 2:
        Desk.here().outlive()
    Desk.here().rotate()


def test_a_drain_goes_on_when_its_tokens_and_passwords_are_past(world: TokenWorld) -> None:
    """B24, G223: a member, a mirror, readers and writers, before and behind each job of three."""
    world.produce(3)
    world.before = world.after = turn
    assert world.run(max_records=1).rows == 3
    assert world.kafka_offsets() == world.ledger_offsets()
    world.reset()


@pytest.mark.long
@pytest.mark.spark
def test_each_process_of_a_dag_run_makes_its_own(
    world: TokenWorld, desk: Desk, environment: dict[str, str], tmp_path: Path
) -> None:
    """B24, G223: tasks, driver, Spark's workers, in three batches; and no token stands anywhere."""
    world.produce(3)
    batched = world.file | {"transform": "jobs.turning:transform", "batch": {"max_records": 1}}
    for place, content in {
        "dags/turning.py": DAG,
        "dags/turning.yaml": yaml.safe_dump(batched),
        "jobs/turning.py": TRANSFORM,
    }.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(content)
    home = tmp_path / "home"
    env = {
        **environment,
        **dict(one.to_env() for one in world.connections.values()),
        FOLDER: str(desk.folder),
        BY_AIRFLOW: ",".join(PATHS),  # the driver has it from its task
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "TIDEMARK_SPARK_LOGS": str(tmp_path),
    }
    script = [sys.executable, str(Path(__file__).with_name("lineage.py")), str(tmp_path / "dags")]
    ended = subprocess.run(script, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    states = json.loads((tmp_path / "dags" / "states.json").read_text())["tasks"]
    assert {states[name] for name in ("open", "drain", "close")} == {"success"}, ended.stdout[
        -5000:
    ]
    assert world.sql("SELECT count(*), count(DISTINCT batch_seq) FROM public.records") == [(3, 3)]
    for what in ("token", "password"):
        words = {words for _, words in desk.asked(what)}
        for process in ("lineage.py", "jobs/drain.py", "tidemark.spark.daemon"):
            assert any(process in one for one in words), (what, process, words)
    secrets = {HEADER, *desk.passwords.read_text().split()}
    told = [ended.stdout, ended.stderr, *(text(one) for one in files(home, tmp_path / "dags"))]
    told += [text(one) for one in tmp_path.glob("*.log")]
    assert not [one for one in secrets if any(one in text for text in told)]


def files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (one for one in folder.rglob("*") if one.is_file())


def text(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")


def test_a_password_that_is_past_is_told_without_it(world: TokenWorld, desk: Desk) -> None:
    """G222: the server refuses it; the remedy names who makes it."""
    newest = desk.passwords.read_text()
    desk.rotate()
    desk.passwords.write_text(newest)
    with pytest.raises(Unreachable) as refused:
        world.open()
    assert "password_cb" in str(refused.value)
    assert newest.strip() not in str(refused.value)


def test_without_a_token_what_needs_no_kafka_is_seen(
    world: TokenWorld, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G222: by the command line, and on every page."""
    from tidemark.page.asking import resolved

    settle_in(world, tmp_path, monkeypatch)
    world.produce(3)
    world.run()
    desk.fault.touch()
    told = json.loads(tidemark("status", "dags/pipeline.yaml", "-o", "json", exits=1).stdout)
    assert (told["head_seq"], told["lag"]) == (1, None)
    assert tidemark("check", "dags/pipeline.yaml", exits=1)
    described = Described.from_json(Described.of(world.pipeline, Role.run).to_json())
    assert described is not None
    regions = (SeenRegion(described, {Role.run: ("turning",)}),)
    known = resolved(world.connections)
    for name in ("region", "live"):  # the ledger's
        assert answer_page(Question(name, regions, PAGES[name]), known).body
    with pytest.raises(CallbackFailed) as failed:
        answer_page(Question("dry_run", regions, PAGES["dry_run"]), known)
    assert failed.value.path == PATHS[0]


@pytest.mark.long
def test_a_doorbell_rings_though_nobody_tells_it_another_login(
    world: TokenWorld, desk: Desk
) -> None:
    """B24."""
    from tests.dags.test_on_data import bell_of, listening

    world.run("first")
    desk.rotate()

    async def story() -> None:
        async with listening(bell_of(world, group=world.region)) as heard:
            assert await heard(within=1) is None, "all is read"
            await asyncio.to_thread(desk.outlive)
            desk.rotate()
            world.produce(1)
            assert await heard() == 1

    asyncio.run(story())


def test_a_page_shows_the_region(world: TokenWorld, desk: Desk) -> None:
    """B24: by the helper process of Airflow's api-server."""
    from tidemark.page.asking import Helper, resolved

    world.produce(3)
    world.run()
    described = Described.from_json(Described.of(world.pipeline, Role.run).to_json())
    assert described is not None
    regions = (SeenRegion(described, {Role.run: ("turning",)}),)
    helper = Helper()
    try:
        for _ in range(2):
            desk.rotate()
            for name, args in PAGES.items():
                line = asked(Question(name, regions, args).text, resolved(world.connections))
                assert HEADER.encode() not in line
                body = helper.ask(line, 60).body
                assert "UNREACHABLE" not in body, body
    finally:
        helper._end()
    assert any("tidemark.page.helper" in words for _, words in desk.asked("token"))
    assert any("tidemark.page.helper" in words for _, words in desk.asked("password"))


def test_the_command_line_logs_in(
    world: TokenWorld, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B24: in this process; and in the one that it asks for the group's state."""
    settle_in(world, tmp_path, monkeypatch)
    world.produce(3)
    tidemark("run", "dags/pipeline.yaml")
    desk.rotate()
    assert answer("verify", "dags/pipeline.yaml")["clean"]
    tidemark("group", "dags/pipeline.yaml")
    assert any("tidemark.kafka.description" in words for _, words in desk.asked("token"))
    monkeypatch.delenv(LISTED)
    assert refusal("verify", "dags/pipeline.yaml", exits=2).case == "CallbackNotListed"


def test_a_task_with_a_callback_that_airflow_does_not_list_is_not_retried(
    world: TokenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G220: nor does it start a driver."""
    from tidemark.airflow import DrainOperator
    from tidemark.airflow.compat import AirflowFailException

    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(world.file))
    monkeypatch.setenv(BY_AIRFLOW, PATHS[0])
    operator = DrainOperator(task_id="drain", pipeline=str(tmp_path / "pipeline.yaml"))
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="drain", map_index=0, try_number=1)
    with pytest.raises(AirflowFailException) as refused:
        operator.execute({"ti": ti})
    assert isinstance(refused.value.__cause__, CallbackNotListed)


def test_neither_triggerer_nor_api_server_calls_what_airflow_does_not_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G220."""
    from tidemark.airflow import _shared
    from tidemark.page import asking

    monkeypatch.setenv(*kafka_connection("127.0.0.1:1", **OAUTH).to_env())
    monkeypatch.setenv(LISTED, PATHS[0])  # of drivers and the command line
    with pytest.raises(CallbackNotListed):
        asyncio.run(_shared.resolved(KAFKA))
    with pytest.raises(CallbackNotListed):
        asking.connection(KAFKA)


def test_a_client_whose_callback_fails_is_out_with_its_last_token_and_in_with_the_next(
    world: TokenWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G222: it neither hangs nor dies, and says why."""
    monkeypatch.setattr("tidemark.tokens.callbacks.AGAIN_SECONDS", 1.0)
    world.produce(1)
    broker = Broker(kafka_config(world.connections[KAFKA]))
    broker.topic_ids([world.topic])
    desk.fault.touch()
    met: list[TidemarkError] = []

    def is_out() -> bool:
        try:
            broker.ping(1)
        except Unreachable as error:
            met.append(error)
        return bool(met)

    until(is_out)
    assert isinstance(met[0], BrokersUnreachable)
    assert "oauth_cb" in str(met[0])
    with pytest.raises(TidemarkError) as refused:  # a new client does not begin
        list(read_spans(kafka_config(world.connections[KAFKA]), [Span(world.topic, 0, 0, 1)]))
    assert refused.value.case == "CallbackFailed"
    desk.fault.unlink()

    def is_in() -> bool:
        try:
            broker.ping(1)
        except Unreachable:
            return False
        return True

    until(is_in)
    assert "CallbackFailed" not in caplog.text
    assert PATHS[0] in caplog.text
    assert HEADER not in caplog.text + str(met[0]) + str(refused.value)
