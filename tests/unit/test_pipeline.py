import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.errors import InvalidSettings
from tidemark.model.bounds import Bounds
from tidemark.settings.decode import Metadata
from tidemark.settings.errors import FileNotUtf8, FileUnreadable, PipelineFaults
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.kafka import FromTimestamp
from tidemark.settings.pipeline import Pipeline

PROJECT = Path(__file__).resolve().parents[2]
MINIMAL = """\
region: flights
kafka:
  connection: k
  topics: [flights]
decode:
  schema: {year: int}
target:
  connection: w
  table: public.flights
"""


def load(tmp_path: Path, text: str) -> Pipeline:
    """The pipeline of a file."""
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return Pipeline.load(path)


def changed(**sections: Any) -> str:
    """The minimal file with changed sections; a dict is merged in."""
    found = yaml.safe_load(MINIMAL)
    for key, value in sections.items():
        found[key] = found.get(key, {}) | value if isinstance(value, dict) else value
    return yaml.safe_dump(found)


def fault(tmp_path: Path, text: str) -> str:
    """What is said about a wrong file."""
    with pytest.raises(InvalidSettings) as refused:
        load(tmp_path, text)
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_a_minimal_file_has_defaults(tmp_path: Path) -> None:
    found = load(tmp_path, MINIMAL)
    assert (found.group, found.kafka.start, found.members) == ("flights", "beginning", 1)
    assert found.batch.bounds() == Bounds(100_000, in_flight=2)
    assert (found.transform, found.spark.connection) == (None, "spark_default")


def test_executors_and_readers_may_have_connections_of_their_own(tmp_path: Path) -> None:
    """Which log in says nothing of what rows are made with."""
    one = load(tmp_path, changed(executors={"kafka": "ke", "warehouse": "we"}))
    both = load(tmp_path, changed(executors={"warehouse": "we"}, readers={"warehouse": "wr"}))
    assert one.connections == {"k", "w", "ke", "we"}
    assert (both.connections, both.for_readers.connections) == ({"k", "w", "we"}, {"k", "wr"})
    assert both.for_readers.path == both.path
    assert fingerprint(one) == fingerprint(both) == fingerprint(load(tmp_path, MINIMAL))


def test_the_worked_example_is_a_pipeline() -> None:
    assert Pipeline.load(PROJECT / "dags" / "flights.yaml").region == "flights"


def test_a_group_of_its_own(tmp_path: Path) -> None:
    assert load(tmp_path, changed(kafka={"group": "g"})).group == "g"


def test_a_start_may_be_a_time_with_a_zone(tmp_path: Path) -> None:
    start = load(tmp_path, changed(kafka={"start": {"timestamp": "2024-01-01T00:00:00Z"}}))
    assert isinstance(start.kafka.start, FromTimestamp)
    assert start.kafka.start.milliseconds == 1_704_067_200_000


def test_metadata_is_asked_for_by_name(tmp_path: Path) -> None:
    found = load(tmp_path, changed(decode={"metadata": ["key", "headers"]}))
    assert found.decode.metadata == (Metadata.key, Metadata.headers)


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"unknown": 1}, "unknown: unknown key"),
        ({"kafka": {"topix": []}}, "kafka.topix: unknown key"),
        ({"region": "Flights!"}, "region: must be 1 to 40 small letters"),
        ({"region": "r" * 41}, "region: must be 1 to 40 small letters"),
        ({"kafka": {"topics": []}}, "kafka.topics"),
        ({"kafka": {"start": "yesterday"}}, "kafka.start"),
        ({"kafka": {"start": {"timestamp": "2024-01-01T00:00:00"}}}, "with its zone"),
        ({"kafka": {"start": {"timestamp": "1969-12-31T23:59:59Z"}}}, "begin with 1970"),
        ({"batch": {"max_seconds": 2**63}}, "must be at most 9223372036854775807"),
        ({"batch": {"max_records": 0}}, "batch.max_records"),
        ({"batch": {"max_bytes": 0}}, "batch.max_bytes"),
        ({"decode": {"schema": {}}}, "format json needs a schema"),
        ({"decode": {"format": "raw"}}, "format raw takes no schema"),
        ({"decode": {"format": "yaml"}}, "decode.format: must be json, raw, avro, protobuf, or"),
        ({"decode": {"format": "avro"}}, "format avro needs a registry"),
        ({"decode": {"format": "avro", "registry": "r", "schema": {}}}, "avro needs a schema"),
        ({"decode": {"registry": "r"}}, "format json takes no registry"),
        ({"decode": {"format": "a:B", "registry": "r"}}, "format a:B takes no registry"),
        ({"decode": {"registry": "a b"}}, "decode.registry: must be the id of an Airflow"),
        ({"target": {"mode": "merge"}}, "target.mode: must be 'append' or 'upsert', got 'merge'"),
        ({"target": {"mode": "upsert"}}, "target: mode upsert needs a key"),
        ({"target": {"table": "a.b.c"}}, "target.table"),
        ({"transform": "jobs/flights.py"}, "transform"),
        ({"transform": "a:b", "transform_kind": "pandas"}, "transform_kind: must be 'arrow' or"),
        ({"transform_kind": "arrow"}, "transform_kind: there is no transform: name one"),
        ({"members": 0}, "members"),
    ],
)
def test_a_fault_names_its_key(tmp_path: Path, sections: dict[str, Any], text: str) -> None:
    assert text in fault(tmp_path, changed(**sections))


def test_a_fault_names_file_and_line(tmp_path: Path) -> None:
    said = fault(tmp_path, MINIMAL + "  colour: bad\n")
    assert said == f"{tmp_path}/p.yaml:10: target.colour: unknown key"


WORDS = "must be 'range', 'roundrobin' or 'cooperative-sticky', got 'x'"
TIME = "must be a time with its zone, such as 2024-01-01T00:00:00Z, got 'noon'"
CONNECTION = "must be the id of an Airflow connection: 1 to 100 letters, digits, _ . and -, got ''"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"kafka": {"topics": []}}, "kafka.topics: must name at least 1"),
        ({"kafka": {"topics": None}}, "kafka.topics: is empty"),
        ({"kafka": {"topics": "t"}}, "kafka.topics: must be a list: [a, b], got 't'"),
        ({"kafka": {"topics": [1]}}, "kafka.topics.0: must be text, got 1"),
        ({"kafka": {"topic": []}}, "kafka.topic: unknown key; did you mean 'topics'?"),
        ({"kafka": {"group": ""}}, "kafka.group: is empty"),
        (
            {"kafka": {"group": "g" * 250}},
            f"kafka.group: must have at most 249 characters, got '{'g' * 250}'",
        ),
        ({"kafka": {"assignment_strategy": ["x"]}}, f"kafka.assignment_strategy.0: {WORDS}"),
        ({"kafka": {"assignment_strategy": "x"}}, f"kafka.assignment_strategy.0: {WORDS}"),
        (
            {"kafka": {"static_membership": "maybe"}},
            "kafka.static_membership: must be true or false, got 'maybe'",
        ),
        (
            {"kafka": {"start": "noon"}},
            "kafka.start: must be 'beginning', 'end' or 'committed', got 'noon';"
            " or keys: timestamp",
        ),
        ({"kafka": {"start": {}}}, "kafka.start.timestamp: is missing"),
        ({"kafka": {"start": None}}, "kafka.start: is empty"),
        ({"kafka": {"start": {"timestamp": "noon"}}}, f"kafka.start.timestamp: {TIME}"),
        (
            {"kafka": {"start": {"timestamp": "2024-01-01T00:00:00Z", "timestmp": 1}}},
            "kafka.start.timestmp: unknown key; did you mean 'timestamp'?",
        ),
        ({"target": {"connection": ""}}, f"target.connection: {CONNECTION}"),
        ({"target": {"table": 5}}, "target.table: must be text, got 5"),
        (
            {"decode": {"schema": ["a"]}},
            "decode.schema: must be 'infer' or 'registry'; or field: type",
        ),
        ({"decode": {"schma": {}}}, "decode.schma: unknown key; did you mean 'schema'?"),
        (
            {"batch": {"max_record": 5}},
            "batch.max_record: unknown key; did you mean 'max_records'?",
        ),
        ({"batch": {"max_bytes": 1.5}}, "batch.max_bytes: must be a whole number, got 1.5"),
        ({"batch": {"max_bytes": 0}}, "batch.max_bytes: must be more than 0, got 0"),
        (
            {"transform": "jobs/flights.py"},
            "transform: must be module:function, such as jobs.flights:transform,"
            " got 'jobs/flights.py'",
        ),
        ({"members": 1001}, "members: must be at most 1000, got 1001"),
        ({"members": 0}, "members: must be at least 1, got 0"),
        ({"membrs": 1}, "membrs: unknown key; did you mean 'members'?"),
    ],
)
def test_a_fault_is_one_line_in_words_of_our_own(
    tmp_path: Path, section: dict[str, Any], said: str
) -> None:
    assert fault(tmp_path, changed(**section)).partition(": ")[2] == said


def test_a_type_that_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    text = MINIMAL.replace("schema: {year: int}", "schema:\n    year: int\n    month: in")
    said = fault(tmp_path, text)
    assert "p.yaml:8: decode.schema.month: the type 'in' names 'in', which is no type" in said


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("public.flights", "public.flights"),
        ("PUBLIC.Flights", "public.flights"),
        ('"public".flights', "public.flights"),
        ('"My Schema"."Flights 2"', '"My Schema"."Flights 2"'),
    ],
)
def test_a_table_has_one_spelling(tmp_path: Path, written: str, spelled: str) -> None:
    assert load(tmp_path, changed(target={"table": written})).into == spelled


@pytest.mark.parametrize(
    "table", ["tidemark.batches", '"TIDEMARK_Staging".x', "Tidemark_Staging.x"]
)
def test_no_table_lies_in_a_schema_of_our_own(tmp_path: Path, table: str) -> None:
    written = changed(target={"table": table})
    if table.startswith('"'):  # another schema: its name has capitals
        assert load(tmp_path, written).into == table
    else:
        assert "is Tidemark's own" in fault(tmp_path, written)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    said = fault(tmp_path, changed(region="X", batch={"max_records": -1}))
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("", "p.yaml:1: file: is empty"),
        ("# nothing\n", "file: is empty"),
        ("- 1", "file: must be keys with values"),
        (MINIMAL.replace("  schema: {year: int}\n", ""), "p.yaml:5: decode: is empty"),
        (MINIMAL + "batch: 5\n", "p.yaml:10: batch: must be keys with values"),
    ],
)
def test_what_is_no_pipeline_at_all(tmp_path: Path, text: str, said: str) -> None:
    assert said in fault(tmp_path, text)


def test_a_file_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes((MINIMAL + "# Zürich\n").encode("latin-1"))
    with pytest.raises(FileNotUtf8) as refused:
        Pipeline.load(path)
    assert (refused.value.file, refused.value.line) == (path, 10)


def test_the_faults_of_a_file_are_data(tmp_path: Path) -> None:
    """Of pydantic's own checks and of ours, which name what is wrong in the same words."""
    with pytest.raises(PipelineFaults) as refused:
        load(tmp_path, MINIMAL.replace("int", "foo") + "membrs: 2\n")
    path = tmp_path / "p.yaml"
    ours, unknown = refused.value.faults
    assert (ours["line"], ours["key"]) == (6, "decode.schema.year")
    assert unknown == {
        "line": 10, "key": "membrs", "problem": "unknown key; did you mean 'members'?"
    }  # fmt: skip
    assert refused.value.fields() == {"file": str(path), "faults": [ours, unknown]}
    assert str(refused.value).splitlines()[1] == (
        f"{path}:10: membrs: unknown key; did you mean 'members'?"
    )


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable) as refused:
        Pipeline.load(tmp_path / "missing.yaml")
    assert refused.value.file == tmp_path / "missing.yaml"


@pytest.mark.parametrize(("jobs", "project"), [(".", "."), ("dags", "dags"), (None, "dags/deep")])
def test_transforms_are_those_of_the_nearest_folder_above_with_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str | None, project: str
) -> None:
    deep = tmp_path / "dags" / "deep"
    deep.mkdir(parents=True)
    if jobs:
        (tmp_path / jobs / "jobs").mkdir()
    (deep / "p.yaml").write_text(MINIMAL)
    monkeypatch.chdir(deep)
    for path in (deep / "p.yaml", Path("p.yaml")):
        assert Pipeline.load(path).project == (tmp_path / project).resolve()


FOR_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives folders away")


def world_writable(folder: Path) -> None:
    folder.chmod(0o1777)


def of_another_account(folder: Path) -> None:
    os.chown(folder, 65534, 65534)


def of_a_foreign_group(folder: Path) -> None:
    os.chown(folder, -1, 65534)
    folder.chmod(0o775)


def end_of_a_repository(folder: Path) -> None:
    (folder / "mine" / ".git").mkdir()


@pytest.mark.parametrize(
    "make",
    [
        world_writable,
        end_of_a_repository,
        pytest.param(of_another_account, marks=FOR_ROOT),
        pytest.param(of_a_foreign_group, marks=FOR_ROOT),
    ],
)
def test_code_of_others_above_the_pipeline_is_never_its_project(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """G129: as with `mkdir /tmp/jobs`, where Airflow keeps its bundles by default."""
    shared = tmp_path / "shared"
    own = shared / "mine" / "pipelines"
    own.mkdir(parents=True)
    (shared / "jobs").mkdir()
    (own / "p.yaml").write_text(MINIMAL)
    assert Pipeline.load(own / "p.yaml").project == shared
    make(shared)
    assert Pipeline.load(own / "p.yaml").project == own
    (own.parent / "jobs").mkdir(mode=0o777)
    (own.parent / "jobs").chmod(0o777)
    assert Pipeline.load(own / "p.yaml").project == own
    (own.parent / "jobs").chmod(0o755)
    assert Pipeline.load(own / "p.yaml").project == own.parent


def test_where_everybody_may_write_the_pipeline_itself_rights_tell_nothing(tmp_path: Path) -> None:
    """As on a disk without rights, or in a checkout of a CI that has no umask."""
    own = tmp_path / "shared" / "mine"
    own.mkdir(parents=True)
    (tmp_path / "shared" / "jobs").mkdir()
    (own / "p.yaml").write_text(MINIMAL)
    for folder in (own, own.parent, own.parent / "jobs"):
        folder.chmod(0o777)
    assert Pipeline.load(own / "p.yaml").project == own.parent


def test_yaml_that_would_run_code_is_refused(tmp_path: Path) -> None:
    text = MINIMAL + "transform: !!python/object/apply:os.system [ls]\n"
    assert "not YAML" in fault(tmp_path, text)


def test_a_short_file_that_aliases_make_a_large_one_is_refused(tmp_path: Path) -> None:
    """G126: ten lists of ten of the one before; and one that holds itself. A few are welcome."""
    levels = [f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    bomb = "\n".join([MINIMAL, "spark:", "  l0: &l0 [x]", *levels])
    assert "p.yaml: not YAML: written out, it is" in fault(tmp_path, bomb)
    assert "not YAML: written out" in fault(tmp_path, MINIMAL + "spark: &s {a: *s}\n")
    assert "not YAML: written out" in fault(tmp_path, MINIMAL + f"spark: {'[' * 600}{']' * 600}\n")
    batch = "batch: {max_records: &n 50, max_batches: *n}\n"
    assert load(tmp_path, MINIMAL + batch).batch.max_batches == 50


def test_a_registry_is_one_of_the_connections(tmp_path: Path) -> None:
    """B12"""
    known = load(tmp_path, MINIMAL).connections
    decode = {"format": "avro", "registry": "schemas"}
    assert load(tmp_path, changed(decode=decode)).connections == known | {"schemas"}


def several(**changes: dict[str, Any]) -> str:
    """A file with two targets, changed by name; another name is one more."""
    own = {"connection": "w", "table": "public.flights"}
    targets: dict[str, Any] = {"one": own, "other": own | {"table": "public.others"}}
    for name, keys in changes.items():
        targets[name] = targets.get(name, own) | keys
    found = yaml.safe_load(MINIMAL)
    del found["target"]
    return yaml.safe_dump(found | {"targets": targets, "transform": "m:f"})


def test_targets_have_names(tmp_path: Path) -> None:
    """B8: of one target the name is empty."""
    assert load(tmp_path, MINIMAL).tables == {"": "public.flights"}
    found = load(tmp_path, several(other={"mode": "upsert", "key": ["k"]}))
    assert found.tables == {"one": "public.flights", "other": "public.others"}
    assert (found.warehouse, found.all_targets["other"].upsert is None) == ("w", False)
    told = fingerprint(found)
    assert (told["targets.one.mode"], told["targets.other.key"]) == ("append", "k")
    assert fingerprint(load(tmp_path, MINIMAL))["target.mode"] == "append"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (several(other={"connection": "x"}), "targets: targets have different connections"),
        (several(other={"table": "PUBLIC.Flights"}), "two targets have the table public.flights"),
        (several(Other={}), "targets.Other: must be 1 to 20 small letters"),
        (several(other={"tabel": "t"}), "targets.other.tabel: unknown key; did you mean 'table'?"),
        (several(other={"on_refused": "dead_letter"}), "on_refused differs from target to target"),
        (several(one={"mode": "upsert"}), "targets.one: mode upsert needs a key"),
        (several().replace("transform: m:f\n", ""), "targets need a transform"),
        (MINIMAL.replace("target:\n", "targets:\n"), "targets.connection: "),
        (several(otherwise={"table": "t.t"}).replace("flights\n", "f" * 40 + "\n"), "46 letters"),
        (several() + MINIMAL[MINIMAL.index("target:") :], "one of the two"),
        (MINIMAL[: MINIMAL.index("target:")], "one of the two"),
    ],
)
def test_targets_that_do_not_fit_each_other_are_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    """B8: when the file is read, with the reason."""
    assert says in fault(tmp_path, text)
