import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.model.plan import Bounds
from tidemark.settings.decode import Metadata
from tidemark.settings.errors import FileNotYaml, FileUnreadable, PipelineFaults
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


def test_a_minimal_file_has_defaults(tmp_path: Path) -> None:
    found = load(tmp_path, MINIMAL)
    assert (found.group, found.kafka.start, found.members) == ("flights", "beginning", 1)
    assert found.batch.bounds() == Bounds(1_000_000, max_bytes=256 << 20, in_flight=2, seconds=5)
    assert (found.transform, found.spark.connection) == (None, "spark_default")


def test_a_batch_that_is_sent_fits_into_a_transaction_unless_the_file_says_how_large_it_is(
    tmp_path: Path,
) -> None:
    """A transaction has a time of its own, which a batch of a million rows may exceed."""
    sent = changed(output={"topic": "sent", "max_rows": 70_000})
    assert load(tmp_path, sent).bounds() == Bounds(
        70_000, max_bytes=256 << 20, in_flight=2, seconds=5
    )
    wanted = changed(output={"topic": "sent"}, batch={"max_records": 300_000})
    assert load(tmp_path, wanted).bounds().max_records == 300_000
    assert load(tmp_path, MINIMAL).bounds().max_records == 1_000_000


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({}, "what 5 s allow, at most 1,000,000 records and 256 MiB"),
        ({"seconds": None, "max_bytes": None}, "at most 1,000,000 records"),
        (
            {"max_bytes": 1000, "max_records": 10},
            "what 5 s allow, at most 10 records and 1,000 bytes",
        ),
    ],
)
def test_a_person_is_told_how_large_a_batch_may_be(
    tmp_path: Path, batch: dict[str, Any], told: str
) -> None:
    assert load(tmp_path, changed(batch=batch)).bounds().told == told


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


@pytest.mark.parametrize(
    "zone", ["localtime", "right/Europe/Berlin", "utc", "", "Europe/Nowhere", "../Europe/Berlin"]
)
def test_a_zone_that_is_another_one_elsewhere_is_none(tmp_path: Path, zone: str) -> None:
    """A period's key would depend on the machine whose worker tells it."""
    assert load(tmp_path, changed(complete={"every": "hour", "zone": "Europe/Berlin"})).complete
    with pytest.raises(PipelineFaults) as refused:
        load(tmp_path, changed(complete={"every": "hour", "zone": zone}))
    assert [fault["key"] for fault in refused.value.faults] == ["complete.zone"]


def test_metadata_is_asked_for_by_name(tmp_path: Path) -> None:
    found = load(tmp_path, changed(decode={"metadata": ["key", "headers"]}))
    assert found.decode.metadata == (Metadata.key, Metadata.headers)


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


def test_a_schema_whose_name_is_ours_but_for_capitals_is_another(tmp_path: Path) -> None:
    table = '"TIDEMARK_Staging".x'
    assert load(tmp_path, changed(target={"table": table})).into == table


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("", 1, ""),
        ("# nothing\n", 1, ""),
        ("- 1", 1, ""),
        (MINIMAL.replace("  schema: {year: int}\n", ""), 5, "decode"),
        (MINIMAL + "batch: 5\n", 10, "batch"),
        (MINIMAL + "  colour: bad\n", 10, "target.colour"),
        (
            MINIMAL.replace("{year: int}", "\n    year: int\n    month: in"),
            8,
            "decode.schema.month",
        ),
    ],
)
def test_a_fault_has_the_line_of_its_key(tmp_path: Path, text: str, line: int, key: str) -> None:
    with pytest.raises(PipelineFaults) as refused:
        load(tmp_path, text)
    assert [(one["line"], one["key"]) for one in refused.value.faults] == [(line, key)]


def not_yaml(tmp_path: Path, text: str) -> FileNotYaml:
    """It is refused before it is looked at as a pipeline."""
    with pytest.raises(FileNotYaml) as refused:
        load(tmp_path, text)
    return refused.value


def test_a_file_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes((MINIMAL + "# Zürich\n").encode("latin-1"))
    with pytest.raises(FileNotYaml) as refused:
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
    not_yaml(tmp_path, MINIMAL + "transform: !!python/object/apply:os.system [ls]\n")


def test_what_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    assert not_yaml(tmp_path, MINIMAL + "batch: }\n").line == 10


@pytest.mark.parametrize(
    "value",
    ["2024-02-30", "!!bool maybe", "!!timestamp x", "!!int ''", "1" + ":1" * 200 + ".0"],
)
def test_a_value_that_is_none_is_a_fault_of_the_file(tmp_path: Path, value: str) -> None:
    """Not a traceback, which would take with it every command that reads all files."""
    text = MINIMAL.replace("topics:", f"start: {{timestamp: {value}}}\n  topics:")
    found = not_yaml(tmp_path, text)
    assert (found.file, found.line) == (tmp_path / "p.yaml", None)
    assert found.cause


def test_a_short_file_that_aliases_make_a_large_one_is_refused(tmp_path: Path) -> None:
    """G126: ten lists of ten of the one before; and one that holds itself. A few are welcome."""
    levels = [f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    bomb = "\n".join([MINIMAL, "spark:", "  l0: &l0 [x]", *levels])
    for text in (bomb, MINIMAL + "spark: &s {a: *s}\n"):
        assert not_yaml(tmp_path, text).cause.startswith("written out, it is")
    batch = "batch: {max_records: &n 50, max_batches: *n}\n"
    assert load(tmp_path, MINIMAL + batch).batch.max_batches == 50


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 100_000, "? " * 30_000])
def test_a_deep_file_does_not_end_the_process(tmp_path: Path, deep: str) -> None:
    """G149: the page of Airflow's API server reads it, too; libyaml would overflow the stack."""
    assert not_yaml(tmp_path, f"spark: {deep}").cause
    assert not_yaml(tmp_path, deep).cause.startswith("it is over 100 levels deep")


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
