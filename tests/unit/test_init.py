"""B11, B12: the files of `tidemark init`, whatever a topic's writers call their fields."""

import ast
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.commands import tidemark
from tests.support.protobuf import as_set, field, file, message
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written

from tidemark.cli.faults import FileNotWritten, KeyNoColumn, RegistryNotNamed
from tidemark.cli.init import write_all
from tidemark.cli.new_pipeline import NewPipeline, mode, upserting
from tidemark.cli.proposal import proposal
from tidemark.decode import Decoding
from tidemark.decode.infer import ValueKind, inferred, value_kind
from tidemark.decode.record_types import record_types
from tidemark.errors import InvalidSettings
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import TransformKind
from tidemark.staging.errors import ColumnTypeUnfit
from tidemark.testing import ddl_faults, run_transform

DRAFT: dict[str, Any] = {
    "region": "clicks",
    "kafka": {"connection": "k", "topics": ["clicks"], "start": "beginning"},
    "target": {"connection": "w", "table": "public.clicks"},
}


def seen(*values: bytes | None, headers: Any = None, **options: Any) -> Any:
    records = [{"value": value, "kafka_headers": headers} for value in values]
    return proposal(records, None, **options)


def project(folder: Path, *values: bytes, draft: Any = DRAFT) -> NewPipeline:
    """What `init` writes for values like these."""
    new = NewPipeline(folder, draft)
    write_all(new.texts(seen(*values)))
    return new


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, ValueKind.nothing), (b"", ValueKind.nothing), (b'{"a": 1}', ValueKind.json),
        (b"[1]", ValueKind.other_json), (b"12", ValueKind.other_json), (b"a b\n", ValueKind.text),
        (b"Obj\1\x04", ValueKind.container), (b"\x1f\x8b\x08", ValueKind.gzip),
        (b"<a/>", ValueKind.xml), (b'\xef\xbb\xbf{"a": 1}', ValueKind.marked),
        (b"\xff\xfe\x80", ValueKind.unknown), (b"\x02\x00", ValueKind.unknown),
        (framed(7, b'{"a": 1}'), ValueKind.framed_json),
        (framed(UUID(int=7), b'{"a": 1}'), ValueKind.framed_json),
        (framed(7, b"\x08\x96\x01\x12\x02ab", b"\0"), ValueKind.protobuf),
        (framed(7, b"\x08\x96\x01\x12\x09ab", b"\0"), ValueKind.avro),
        (framed(7, written(record(("a", "string"), ("n", "long")), {"a": "ada", "n": 9})),
         ValueKind.avro),
    ],
)  # fmt: skip
def test_values_are_told_apart_by_their_bytes(value: bytes | None, what: ValueKind) -> None:
    """B12"""
    assert value_kind(value) is what


@given(st.binary(max_size=60))
def test_no_bytes_are_too_odd_to_be_told(value: bytes) -> None:
    """B12, B16"""
    assert isinstance(value_kind(value), ValueKind)


def test_an_id_in_a_header_is_a_frame() -> None:
    """B12: of JSON too."""
    headers = [{"key": "__value_schema_id", "value": b"\0\0\0\0\7"}]
    assert seen(b'{"a": 1}', headers=headers).decode == {"format": "json", "framing": "headers"}
    assert seen(framed(7, b'{"a": 1}')).decode == {"format": "json", "framing": "registry"}
    with pytest.raises(RegistryNotNamed) as refused:
        seen(b"\x08\x01", headers=[headers[0] | {"value": b"\0\0\0\0\7\0"}])
    assert (refused.value.looks, refused.value.schema) == (ValueKind.protobuf, 7)


def test_what_most_values_look_like_decides() -> None:
    """B12"""
    found = seen(b"text", b'{"a": 1}', None, None, None, b'{"a": 2}')
    assert found.declared == {"a": "bigint"}
    assert [*found.looks] == [ValueKind.nothing, ValueKind.json, ValueKind.text]


ODD = ["a b", "é: x", "on", "null", "1", '"', "'", "#x", "$region", "${x}", '"""', "\\", "%(a)s",
       "a\nb", "\x1b[31m", "ctid", "batch_seq", "A", "a", "x" * 64, "😀", "{x}",
       "-", "~", "- a"]  # fmt: skip


@pytest.mark.usefixtures("ddl_postgres")
def test_odd_names_of_fields_leave_every_file_as_it_should_be(tmp_path: Path) -> None:
    """B11, B16: each name is itself in YAML, Python and SQL, or is left out with the reason."""
    value = json.dumps(dict.fromkeys(ODD, "x") | {"s": {"o'": [1], "😀": 1}}).encode()
    new = project(tmp_path, value)
    declared = Pipeline.load(new.file).decode.declared
    left_out = {"a\nb", "\x1b[31m", "ctid", "batch_seq", "a", "x" * 64, '"', '"""', "\\"}
    assert set(declared) == {*ODD, "s"} - left_out
    tree = ast.parse(new.test.read_text())
    assigned = {ast.unparse(one.targets[0]): one.value for one in tree.body
                if isinstance(one, ast.Assign)}  # fmt: skip
    made_up = ast.literal_eval(assigned["RECORD"])
    assert set(made_up) == set(declared)
    assert run_transform(new.file, [made_up]).reasons == []
    assert ddl_faults(new.file, new.ddl.read_text()) == []
    for path in new.paths:
        assert "\x1b" not in path.read_text()


def keyed(
    folder: Path, keys: str, *values: bytes, kind: TransformKind | None = None
) -> NewPipeline:
    """What `init` writes for values like these with `--upsert`."""
    draft = DRAFT | {"target": {**DRAFT["target"], **mode(keys)}}
    new, found = upserting(NewPipeline(folder, draft, kind), seen(*values))
    write_all(new.texts(found))
    return new


def event(op: str, **row: Any) -> bytes:
    """A change event of Debezium."""
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"op": op, "before": before, "after": after, "source": {}}).encode()


CHANGES = event("c", id=1, at="2024-01-31", name="ada"), event("d", id=1, at="2024-01-31", name="")


@pytest.fixture
def own_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A written project's jobs are imported, and not those of others; nor by others later."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    others = without_jobs()
    yield
    without_jobs()
    sys.modules.update(others)


def without_jobs() -> dict[str, ModuleType]:
    """Modules of jobs are imported no more; which they were."""
    names = [name for name in sys.modules if name.partition(".")[0] == "jobs"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.mark.usefixtures("own_jobs", "ddl_postgres")
def test_an_upsert_of_change_events_deletes_and_drops_tombstones(tmp_path: Path) -> None:
    """B11, B20: a row, its deletion and a tombstone; the table has the key, and no mark."""
    new = keyed(tmp_path, "id, at", *CHANGES)
    loaded = Pipeline.load(new.file)
    target = loaded.all_targets[""]
    assert (target.key, target.deleted) == (("id", "at"), "deleted")
    made = run_transform(new.file, [*CHANGES, None])
    assert made.reasons == []
    assert [(row["id"], row["deleted"]) for row in made.rows] == [(1, False), (1, True)]
    assert "kafka_tombstone" not in made.rows[0]
    ddl = new.ddl.read_text()
    assert ddl_faults(new.file, ddl) == []
    assert 'PRIMARY KEY ("id", "at")' in ddl
    assert "deleted" not in ddl


def wrapped(row: dict[str, Any]) -> bytes:
    """As Kafka Connect's JsonConverter writes it, unless it is told not to."""
    return json.dumps({"schema": {"type": "struct"}, "payload": row}).encode()


def bare(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


@pytest.mark.parametrize("shape", [bare, wrapped])
@pytest.mark.parametrize("said", [("false", "true"), (False, True), (None, "true")])
@pytest.mark.usefixtures("own_jobs", "ddl_postgres")
def test_an_upsert_of_flattened_events_deletes_what_they_say(
    tmp_path: Path, shape: Any, said: tuple[Any, Any]
) -> None:
    """G166, B11, B20: in both shapes of Connect's JSON, a text or a boolean."""
    values = [shape({"id": 1, "name": "a", "__deleted": one}) for one in said]
    new = keyed(tmp_path, "id", *values)
    loaded = Pipeline.load(new.file)
    assert loaded.decode.envelope == ("connect" if shape is wrapped else None)
    assert loaded.decode.declared == {"id": "bigint", "name": "string", "__deleted": "boolean"}
    assert loaded.all_targets[""].deleted == "__deleted"
    made = run_transform(new.file, [*values, None])
    assert made.reasons == []
    told = [bool(one) and one != "false" for one in said]
    assert [bool(row["__deleted"]) for row in made.rows] == told
    ddl = new.ddl.read_text()
    assert ddl_faults(new.file, ddl) == []
    assert "__deleted" not in ddl
    made_up = runpy.run_path(str(new.test))["RECORD"]
    assert made_up["__deleted"] is False


@pytest.mark.parametrize("kind", ["string", "boolean", ["null", "string"]])
def test_avro_and_json_tell_a_flattened_deletion_as_a_boolean(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """G166: other values of a field of that name declare what they are."""
    known = Known(record(("id", "long"), ("__deleted", kind)))
    monkeypatch.setattr("tidemark.decode.infer.registry_of", lambda _: known)
    assert inferred(Decoding("avro"), [framed(1, b"")])["__deleted"] == "boolean"
    assert not seen(bare({"id": 1, "__deleted": 1})).tells_deletions
    assert not seen(bare({"id": 1, "__deleted": "maybe"})).tells_deletions
    assert not seen(bare({"id": 1, "__deleted": None})).tells_deletions


def test_types_of_records_and_what_is_around_their_rows_are_told() -> None:
    """G166: objects are of one type if fields connect them; change events are most of them."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "a": 1},
        {"id": 2, "b": 1},
        {"x": 1},
        {"b": 3, "c": None},
        {},
    ]
    found = seen(*(bare(row) for row in rows), wrapped({"x": 2}), b"no JSON")
    assert found.types.types == {"id, a, b, c": 3, "x": 2, "no field": 1}
    assert found.types.wrappers == {"bare": 5, "a payload beside a schema": 1}
    assert found.decode == {"format": "json", "envelope": "connect"}
    assert found.declared == dict.fromkeys(("id", "a", "b", "x"), "bigint")
    heartbeat = bare({"ts_ms": 5})
    found = seen(event("c", id=1), event("d", id=1), heartbeat)
    assert found.decode["envelope"] == "debezium"
    assert found.types.types == {"id": 2, "ts_ms": 1}
    assert found.types.wrappers == {"a change event": 2, "bare": 1}


def test_records_of_avro_and_protobuf_are_of_the_types_of_their_schemas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G166: of a union the branch that was written; what can't be read is of none."""
    user, order = record(("id", "long"), name="User"), record(("total", "long"), name="shop.Order")
    known = Known(user, [user, order])
    monkeypatch.setattr("tidemark.decode.record_types.registry_of", lambda _: known)
    values = [
        framed(1, written(user, {"id": 1})),
        framed(2, written([user, order], ("User", {"id": 1}))),
        framed(2, written([user, order], ("shop.Order", {"total": 1}))),
        framed(9, b"\1"),
        framed(2, b"\x08"),
        b"junk",
        None,
    ]
    assert record_types(Decoding("avro"), values).types == {"User": 2, "shop.Order": 1}
    descriptors = as_set(file(message("M", field("id", "int64"))))
    of_file = Decoding("protobuf", descriptors=descriptors, message="t.M")
    assert record_types(of_file, [b"", b"\x08\1"]).types == {"t.M": 2}
    assert record_types(Decoding("raw"), [b"a"]).types == {}


@pytest.mark.usefixtures("ddl_postgres")
def test_an_upsert_of_other_records_has_a_key_alone(tmp_path: Path) -> None:
    """B11: nothing tells a deletion, and no transform is written that nobody asked for."""
    new = keyed(tmp_path, "a b", b'{"a b": 1, "n": 1.5}')
    target = Pipeline.load(new.file).all_targets[""]
    assert (target.key, target.deleted) == (("a b",), None)
    assert not new.job.exists()
    assert ddl_faults(new.file, new.ddl.read_text()) == []


def test_a_key_that_is_no_column_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    """B11: also one that no type holds, the mark of a deletion, and what the transform drops."""
    values = b'{"id": 1, "odd": 1}', b'{"id": 2, "odd": "x"}'
    coordinates = ("kafka_topic", "kafka_partition", "kafka_offset")
    with pytest.raises(KeyNoColumn) as refused:
        keyed(tmp_path, "id,odd,Id", *values)
    assert refused.value.missing == ("odd", "Id")
    assert refused.value.columns == ("id", *coordinates)
    assert "no column odd (left out: values of several kinds), Id; they have id," in str(
        refused.value
    )
    with pytest.raises(KeyNoColumn) as refused:
        keyed(tmp_path, "deleted,kafka_tombstone", *CHANGES)
    assert refused.value.missing == ("deleted", "kafka_tombstone")
    assert [*tmp_path.iterdir()] == []


def test_a_key_that_cannot_tell_rows_apart_is_refused(tmp_path: Path) -> None:
    """B11: as `check` and a run would, before anything is written."""
    with pytest.raises(ColumnTypeUnfit) as refused:
        keyed(tmp_path, "n", b'{"n": 1.5}')
    assert (refused.value.column, refused.value.postgres_type) == ("n", "double precision")
    assert [*tmp_path.iterdir()] == []


def test_a_written_test_is_skipped_where_the_extra_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = project(tmp_path, b'{"a": 1}').test
    written = runpy.run_path(str(test))
    monkeypatch.setitem(sys.modules, "tidemark_local", None)
    with pytest.raises(pytest.skip.Exception) as skipped:
        written["test_the_rows_fit_the_table"]()
    assert "[testing]" in str(skipped.value)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.none() | st.integers() | st.text(max_size=3) | st.lists(st.booleans(), max_size=2),
        min_size=1,
    )
)
def test_any_object_is_proposed_or_refused(value: dict[str, Any]) -> None:
    """B12, B16: and what is proposed is a pipeline that reads it."""
    try:
        found = seen(json.dumps(value).encode())
    except InvalidSettings:
        return
    text = NewPipeline(Path("p"), DRAFT).texts(found)[Path("p/dags/clicks.yaml")]
    assert Pipeline.model_validate(yaml.safe_load(text)).decode.declared == found.declared


@pytest.mark.usefixtures("ddl_postgres")
def test_a_topic_or_a_table_may_have_an_odd_name(tmp_path: Path) -> None:
    """B16: a pattern, and a name that SQL quotes."""
    draft = DRAFT | {
        "kafka": {**DRAFT["kafka"], "connection": "k", "topics": ["^a: #\nb.*'\""]},
        "target": {"connection": "w", "table": 'public."A ""b"" # \n c"'},
    }
    new = project(tmp_path, b'{"a": 1}', draft=draft)
    loaded = Pipeline.load(new.file)
    assert loaded.kafka.topics == ("^a: #\nb.*'\"",)
    assert loaded.tables[""] == 'public."A ""b"" # \n c"'
    assert ddl_faults(new.file, new.ddl.read_text()) == []


def test_a_file_that_cannot_be_written_leaves_none(tmp_path: Path) -> None:
    """B11: nor a folder."""
    (tmp_path / "taken").write_text("mine")
    files = {tmp_path / "a" / "b" / "one": "1", tmp_path / "taken": "2"}
    with pytest.raises(FileNotWritten) as refused:
        write_all(files)
    assert refused.value.file == str(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(FileNotWritten):
        write_all({tmp_path / "one": "1", tmp_path / "taken" / "two": "2"})
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_link_to_nowhere_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16"""
    monkeypatch.chdir(tmp_path)
    Path("dags").mkdir()
    Path("dags/clicks.py").symlink_to(tmp_path / "elsewhere")
    told = tidemark("init", "clicks", "--topic", "t", exits=2)
    assert "dags/clicks.py: there already" in told.stderr
    with pytest.raises(FileNotWritten):
        write_all({Path("dags/clicks.py"): "x"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Clicks", "--topic", "t"], "NAME: must be 1 to 40 small letters, digits and _"),
        (["../x", "--topic", "t"], "NAME: must be"),
        (["clicks", "--topic", "a/b"], "--topic: 'a/b' is no topic name"),
        (["clicks", "--topic", ""], "--topic: '' is no topic name"),
        (["clicks", "--topic", "^("], "--topic: '^(' is no pattern"),
        (["clicks", "--topic", "t", "--table", "x"], "--table: 'x' is not a table name"),
        (["clicks", "--topic", "t", "--table", "tidemark.x"], "--table: schema tidemark is"),
        (["clicks", "--topic", "t", "--kafka", "a b"], "--kafka: must be the id of an Airflow"),
        (["clicks", "--topic", "t", "--warehouse", ""], "--warehouse: must be the id"),
        (["clicks", "--topic", "t", "--transform", "sql"], "--transform: must be arrow or datafr"),
        (["clicks", "--topic", "t", "--upsert", ""], "--upsert: "),
        (["clicks", "--topic", "t", "--upsert", "a,b,a"], "--upsert: a column stands twice in key"),
    ],
)
def test_a_bad_name_is_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """B11: all by what the person typed."""
    monkeypatch.chdir(tmp_path)
    told = tidemark("init", *arguments, exits=2)
    assert said in " ".join(told.stderr.split())
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", [None, *TransformKind])
def test_what_is_written_is_as_a_formatter_leaves_it(
    tmp_path: Path, kind: TransformKind | None
) -> None:
    """B11: by the project's own rules."""
    new = NewPipeline(tmp_path, DRAFT, kind)
    write_all(new.texts(seen(b'{"a": 1, "s": {"x": [null, 1.5]}, "t": "2024-01-01"}')))
    changes = keyed(tmp_path / "changes", "id", *CHANGES, kind=kind)
    paths = [str(path) for path in (*new.paths, *changes.paths) if path.suffix == ".py"]
    for check in (["format", "--check"], ["check", "--select", "E,F,W,I,UP"]):
        ruff = [sys.executable, "-m", "ruff", *check, "--line-length", "100", "--isolated", *paths]
        told = subprocess.run(ruff, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout
