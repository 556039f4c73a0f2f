"""B11, B12: `tidemark init` writes a pipeline that works, from the records of a real topic."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from tests.support.commands import answer, tidemark
from tests.support.executor import LocalExecutor
from tests.support.produce import produce
from tests.support.registry import framed, registry
from tests.support.world import World
from tests.unit.test_avro import record, written

CLICKS = [
    b'{"user": "ada", "page": "/1", "ms": 5, "at": "2024-05-01T12:00:00Z", "none": null}',
    b'{"user": null, "page": "/2", "ms": 2.5, "at": "2024-05-01T12:00:01Z", "odd": 1}',
    b"no JSON",
    b'{"page": "/3", "at": "2024-05-01", "odd": "x", "kafka_offset": 7}',
]
RAW = b"\x80\xff"
CREATED = {"op": "c", "before": None, "after": {"order_id": 7, "amount": "1.50"}, "source": {}}
EVENTS = [json.dumps(CREATED).encode()] * 2
KINDS = {"plain": (), "arrow": ("--transform", "arrow"), "dataframe": ("--transform", "dataframe")}
COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
    " WHERE attrelid = 'public.clicks'::regclass AND attnum > 0 ORDER BY attnum"
)


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty folder, connected to a topic of its own."""
    monkeypatch.chdir(tmp_path)
    for connection in world.connections.values():
        monkeypatch.setenv(*connection.to_env())
    return world


def files() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


@contextmanager
def registered(world: World, topic: str) -> Iterator[tuple[str, str]]:
    """Avro records are in the topic, their schema in a registry; the options that name it."""
    schema = record(("id", "long"), ("name", ["null", "string"]), ("odd", ["int", "string"]))
    datum = written(schema, {"id": 2, "name": "ada", "odd": 1})
    with registry() as known, pytest.MonkeyPatch.context() as patch:
        connection = known.connection(extra={"max.retries": 0, "timeout": 5})
        patch.setenv(*connection.to_env())
        produce(world.kafka, topic, [framed(known.register("t", schema), datum)] * 3)
        yield "--registry", "tidemark_registry"


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, as a new user starts one; Airflow has a home of its own."""
    home = {"AIRFLOW_HOME": os.path.abspath(".airflow"), "PYTHONPATH": ""}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=os.environ | home, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_the_tests_that_it_writes_pass(project: World, topic: Callable[..., str]) -> None:
    """B11, B12: of each kind of records and of transforms; they need no server."""
    produce(project.kafka, project.topic, CLICKS)
    for name, more in KINDS.items():
        tidemark("init", f"clicks_{name}", "--topic", project.topic, *more)
    events, raw, avro = topic(), topic(), topic()
    produce(project.kafka, events, EVENTS)
    tidemark("init", "orders", "--topic", events, "--dir", "deep/er")
    of_key = ("--upsert", "order_id", "--transform", "dataframe")
    tidemark("init", "newest", "--topic", events, *of_key)
    produce(project.kafka, raw, [RAW])
    tidemark("init", "raw", "--topic", raw, "--raw")
    with registered(project, avro) as options:
        tidemark("init", "avro", "--topic", avro, *options)
    tests = [*Path("tests").iterdir(), *Path("deep/er/tests").iterdir()]
    counts = [path.read_text().count("def test_") for path in tests]
    assert (len(counts), min(counts), max(counts)) == (7, 2, 4)
    tested = program("pytest", "-q", "-p", "no:cacheprovider", "tests", "deep/er/tests")
    assert tested.returncode == 0, tested.stdout
    assert f"{sum(counts)} passed" in tested.stdout


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_is_checked_and_run(project: World, kind: str) -> None:
    """B11, B12: the check passes, and the rows of a real run are the records.

    The statement makes the table that the run makes: so the file is right as long as nobody
    changes one of the two.
    """
    produce(project.kafka, project.topic, CLICKS)
    told = tidemark("init", "clicks", "--topic", project.topic, *KINDS[kind]).stdout
    assert "4 records looked at: 3 JSON objects, 1 text that is no JSON" in told
    assert "Decoded so: 3 rows, 1 dead letter (1 INVALID_JSON)" in told
    own = ["dags/clicks.py", "dags/clicks.yaml", "sql/clicks.sql", "tests/test_clicks.py"]
    jobs = ["jobs/__init__.py", "jobs/clicks.py"] if KINDS[kind] else []
    assert files() == sorted([*own, *jobs])
    project.sql(Path("sql/clicks.sql").read_text())
    written_by_hand = project.sql(COLUMNS)
    project.sql("DROP TABLE public.clicks")
    checked = program("tidemark", "check", "dags/clicks.yaml")
    assert checked.returncode == 0, checked.stdout
    ran = program("tidemark", "run", "dags/clicks.yaml")
    assert ran.returncode == 0, ran.stderr
    rows = project.sql('SELECT "user", page, ms, at::text FROM public.clicks ORDER BY page')
    assert [row[:3] for row in rows] == [
        ("ada", "/1", 5.0), (None, "/2", 2.5), (None, "/3", None),
    ]  # fmt: skip
    assert [row[3][:10] for row in rows] == ["2024-05-01"] * 3
    assert len(project.dead_letters()) == 1
    assert project.sql(COLUMNS) == written_by_hand


def test_it_says_what_it_saw_and_what_it_left_open(project: World) -> None:
    """B12: types, nulls, and why a field is not declared."""
    produce(project.kafka, project.topic, CLICKS)
    found = answer("init", "clicks", "--topic", project.topic)
    assert (found["records"], found["rows"]) == (4, 3)
    assert found["looks_like"] == {"JSON objects": 3, "text that is no JSON": 1}
    assert found["dead_letters"] == {"INVALID_JSON": 1}
    seen = {one["name"]: (one["type"], one["nulls"]) for one in found["fields"]}
    assert seen == {
        "user": ("string", 2), "page": ("string", 0), "ms": ("double", 1), "at": ("timestamp", 0),
        "none": (None, 3), "odd": (None, 1), "kafka_offset": (None, 2),
    }  # fmt: skip
    why = {one["name"]: one["why"] for one in found["fields"] if not one["type"]}
    assert (why["none"], why["odd"]) == ("only nulls", "values of several kinds")
    assert "kept for the record's coordinates" in why["kafka_offset"]
    text = Path("dags/clicks.yaml").read_text()
    assert "    # odd: values of several kinds\n" in text
    assert found["next"][0] == "python -m pytest tests/test_clicks.py"


def test_record_types_and_wrappers_are_told_and_read(
    project: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G166, B12, B20: by `init`, `check` and `preview`; of a file that does not read them, too."""
    monkeypatch.setattr("tidemark.spark.executor.spark_executor", LocalExecutor)
    rows = [{"id": number, "name": "a", "__deleted": "false"} for number in range(3)]
    rows.append(rows[0] | {"__deleted": "true"})
    values = [{"schema": {"type": "struct"}, "payload": row} for row in rows]
    produce(project.kafka, project.topic, [json.dumps(one).encode() for one in values])
    types = {"id, name, __deleted": 4}, {"a payload beside a schema": 4}
    found = answer("init", "clicks", "--topic", project.topic, "--upsert", "id")
    assert (found["record_types"], found["wrappers"]) == types
    assert (found["upsert"]["deleted"], found["dead_letters"]) == ("__deleted", {})
    file = Path("dags/clicks.yaml")
    settings = yaml.safe_load(file.read_text())
    del settings["transform"], settings["decode"]["metadata"]  # no tombstone is there to drop
    file.write_text(yaml.safe_dump(settings))
    tidemark("run", str(file))
    assert project.sql("SELECT id FROM public.clicks ORDER BY 1") == [(1,), (2,)]

    del settings["decode"]["envelope"]
    file.write_text(yaml.safe_dump(settings))
    found = answer("preview", str(file))
    assert (found["record_types"], found["wrappers"]) == types
    assert [one["reason"] for one in found["dead_letters"]] == ["NO_DECLARED_FIELD"] * 4
    checks = {
        one["check"]: one for one in answer("check", str(file), "--no-spark", exits=1)["checks"]
    }
    assert checks["records"]["state"] == "warned"
    assert "4 NO_DECLARED_FIELD" in checks["records"]["fact"]
    assert "envelope: connect" in checks["records"]["remedy"]
    told = tidemark("init", "appended", "--topic", project.topic).stdout
    assert "1 record type: 4 of id, name, __deleted" in told
    assert "__deleted: each deletion is a row that says so" in told


@pytest.mark.long
@pytest.mark.spark
def test_change_events_are_upserted_if_asked(project: World) -> None:
    """B11, B20: it is checked, its test passes, and a deletion deletes its row.

    A tombstone among them is no dead letter, and the table is the one that a run makes.
    """
    deleted = {"op": "d", "before": {"order_id": 7, "amount": "1.50"}, "after": None, "source": {}}
    kept = CREATED | {"after": {"order_id": 8, "amount": "2.50"}}
    events = [json.dumps(one).encode() for one in (CREATED, kept, deleted)]
    produce(project.kafka, project.topic, [*events, None])
    init = ("init", "clicks", "--topic", project.topic, "--upsert")
    told = tidemark(*init, "id", exits=2).stderr
    assert "no column id; they have order_id, amount, kafka_topic" in " ".join(told.split())
    assert files() == []
    told = tidemark(*init, "order_id").stdout
    assert "Upserted by order_id" in told
    assert "A deletion deletes the row; jobs/clicks.py drops the tombstone behind it" in told
    project.sql(Path("sql/clicks.sql").read_text())
    written_by_hand = project.sql(COLUMNS)
    checked = program("tidemark", "check", "dags/clicks.yaml")
    assert checked.returncode == 0, checked.stdout
    project.sql("DROP TABLE public.clicks")
    for command in (("pytest", "-q", "tests"), ("tidemark", "run", "dags/clicks.yaml")):
        done = program(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert project.sql("SELECT order_id, amount FROM public.clicks") == [(8, "2.50")]
    assert project.dead_letters() == []
    assert project.sql(COLUMNS) == written_by_hand


@pytest.mark.long
def test_a_key_that_is_not_the_sources_own_is_told(project: World) -> None:
    """B11, B12: with how many updates tell the row before; `check` says the same of the file."""
    row = {"id": 1, "email": "a@x"}
    events = [{"op": "c", "before": None, "after": row}, {"op": "u", "before": row, "after": row},
              {"op": "u", "before": None, "after": row}]  # fmt: skip
    producer = Producer({"bootstrap.servers": project.kafka})
    for event in events:
        producer.produce(project.topic, json.dumps(event), json.dumps({"payload": {"id": 1}}))
    assert producer.flush(120) == 0
    init = ("init", "--topic", project.topic, "--upsert")
    told = " ".join(tidemark(*init, "email", "other").stdout.split())
    assert "key (email) is not that of the source's rows (id); 1 of 2 updates" in told
    assert "REPLICA IDENTITY FULL" in told
    assert "not that of the source's" not in tidemark(*init, "id", "own").stdout
    for name, state in (("other", "warned"), ("own", "ok")):
        checked = program("tidemark", "check", f"dags/{name}.yaml", "--no-spark", "-o", "json")
        checks = json.loads(checked.stdout)["checks"]
        assert [one["state"] for one in checks if one["check"] == "key"] == [state]


@pytest.mark.long
def test_avro_is_named_and_read_by_the_registry(
    project: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: without the registry it says what the bytes look like, and how to go on."""
    monkeypatch.setattr("tidemark.spark.executor.spark_executor", LocalExecutor)
    with registered(project, project.topic) as options:
        init = ("init", "clicks", "--topic", project.topic)
        told = " ".join(tidemark(*init, exits=2).stderr.split())
        assert "its values look like Avro behind a schema id (" in told
        assert "--registry tidemark_registry. Nothing was written" in told
        assert files() == []
        found = answer(*init, *options)
        assert found["decode"] == {"format": "avro", "registry": "tidemark_registry"}
        assert {one["name"]: one["type"] for one in found["fields"]} == {
            "id": "bigint", "name": "string", "odd": None,
        }  # fmt: skip
        assert found["fields"][-1]["why"] == "union of int and string"
        assert found["rows"] == 3
        tidemark("run", "dags/clicks.yaml")
    assert project.sql("SELECT id, name FROM public.clicks") == [(2, "ada")] * 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("records", "arguments", "said"),
    [
        ([], [], "it holds no record to look at. Send some first"),
        ([b"a line"], [], "its values look like text that is no JSON. Declare the fields by hand"),
        ([b"{}"], ["--registry", "nowhere"], "AIRFLOW_CONN_NOWHERE"),
        *(
            ([value], [], said)
            for value, said in (
                (b"\x80\xff", "bytes of no format that Tidemark knows"),
                (b"<a/>", "its values look like XML"),
                (None, "its values look like no value"),
                (b"{}", "look like JSON objects and tell no field"),
            )
        ),
    ],
)
def test_what_tells_no_fields_is_refused(
    project: World, records: list[bytes | None], arguments: list[str], said: str
) -> None:
    """B12: and nothing is written."""
    produce(project.kafka, project.topic, records)
    told = tidemark("init", "clicks", "--topic", project.topic, *arguments, exits=2)
    assert said in " ".join(told.stderr.split())
    assert files() == []


@pytest.mark.long
def test_a_topic_that_is_not_there_is_named(project: World) -> None:
    """B12"""
    found = answer("init", "clicks", "--topic", "nobody-made-it", exits=2)["error"]
    assert (found["case"], found["fields"]) == ("TopicToReadMissing", {"topic": "nobody-made-it"})
    assert files() == []


def test_nothing_is_overwritten(project: World) -> None:
    """B11: a file of one of the names is named before Kafka is asked."""
    produce(project.kafka, project.topic, CLICKS)
    Path("tests").mkdir()
    Path("tests/test_clicks.py").write_text("mine")
    told = tidemark("init", "clicks", "--topic", "nobody-made-it", exits=2)
    assert "tests/test_clicks.py: there already, and nothing is overwritten" in told.stderr
    assert files() == ["tests/test_clicks.py"]
    assert Path("tests/test_clicks.py").read_text() == "mine"


@pytest.mark.long
def test_a_region_or_a_table_has_one_pipeline(project: World) -> None:
    """B11: what another file of the folder has is refused."""
    produce(project.kafka, project.topic, CLICKS)
    tidemark("init", "clicks", "--topic", project.topic)
    Path("dags/clicks.yaml").rename("dags/other.yaml")
    Path("dags/clicks.py").unlink()
    for path in ("sql/clicks.sql", "tests/test_clicks.py"):
        Path(path).unlink()
    init = ("init", "clicks", "--topic", project.topic)
    assert "dags/other.yaml has the region clicks" in tidemark(*init, exits=2).stderr
    told = tidemark("init", "more", *init[2:], "--table", "public.clicks", exits=2).stderr
    assert "dags/other.yaml writes to public.clicks" in told
