"""B11: what Tidemark gives to the tests of its users' pipelines, without a server."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.spark.errors import TransformRaised
from tidemark.testing import Record, ddl_faults, run_transform
from tidemark.testing.errors import FieldsInRegistry, RegistryNotGiven, RowsOfSeveralTargets

ROOT = Path(__file__).resolve().parents[2]

TRANSFORMS = '''
"""Clicks."""

import pyarrow as pa
import pyarrow.compute as pc


def long_ones(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch["seconds"], 10))


def parted(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    long = pc.greater(batch["seconds"], 10)
    return {"long": batch.filter(long), "short": batch.filter(pc.invert(long))}


def far(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("day", pa.array([10**7] * batch.num_rows, pa.date32()))


def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise KeyError("seconds")
'''


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """The pipeline file of a project."""
    module = f"{tmp_path.name}_transforms".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(TRANSFORMS)
    for folder in ("dags", "jobs"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "dags" / "clicks.yaml"
    settings = {
        "region": "clicks",
        "kafka": {"connection": "k", "topics": ["clicks"]},
        "decode": {"schema": {"page": "string", "seconds": "int"}},
        "transform": f"{module}:long_ones",
        "target": {"connection": "w", "table": "public.clicks"},
    }
    file.write_text(yaml.safe_dump(settings))
    return file


def change(file: Path, **settings: object) -> None:
    known = yaml.safe_load(file.read_text()) | settings
    file.write_text(yaml.safe_dump({key: value for key, value in known.items() if value}))


def test_records_become_rows_and_dead_letters(clicks: Path) -> None:
    """B11: by the decode and the transform of the file."""
    made = run_transform(
        clicks,
        [
            {"page": "/", "seconds": 12},
            '{"page": "/", "seconds": 3}',
            b'{"page": "/", "seconds": "many"}',
            None,
            Record({"page": "/b", "seconds": 99}, partition=2, offset=41),
        ],
    )
    assert [(row["page"], row["seconds"], row["kafka_offset"]) for row in made.rows] == [
        ("/", 12, 0),
        ("/b", 99, 41),
    ]
    assert made.reasons == ["WRONG_TYPE", "NULL_VALUE"]
    assert [dead_letter.offset for dead_letter in made.dead_letters] == [2, 3]


def test_a_record_has_what_the_file_asks_for(clicks: Path) -> None:
    """B11: key, headers and timestamp."""
    asked = {"schema": {"page": "string", "seconds": "int"},
             "metadata": ["key", "headers", "timestamp"]}  # fmt: skip
    change(clicks, decode=asked, transform=None)
    [row] = run_transform(
        clicks, [Record({"page": "/"}, key="k", headers=[("h", b"v")], timestamp_ms=1000)]
    ).rows
    assert (row["kafka_key"], row["kafka_headers"]) == (b"k", [{"key": "h", "value": b"v"}])
    assert row["kafka_timestamp"].timestamp() == 1.0
    assert (row["kafka_topic"], row["seconds"]) == ("clicks", None)


def test_several_targets_are_told_by_name(clicks: Path) -> None:
    """B11"""
    module = yaml.safe_load(clicks.read_text())["transform"].partition(":")[0]
    targets = {name: {"connection": "w", "table": f"public.{name}"} for name in ("long", "short")}
    change(clicks, transform=f"{module}:parted", target=None, targets=targets)
    made = run_transform(clicks, [{"seconds": 1}, {"seconds": 100}])
    assert {name: len(rows) for name, rows in made.by_target.items()} == {"long": 1, "short": 1}
    with pytest.raises(RowsOfSeveralTargets) as refused:
        assert made.rows
    assert refused.value.targets == ("long", "short")


def test_a_transform_that_fails_says_where(clicks: Path) -> None:
    """B11, B16"""
    module = yaml.safe_load(clicks.read_text())["transform"].partition(":")[0]
    change(clicks, transform=f"{module}:broken")
    with pytest.raises(TransformRaised) as failed:
        run_transform(clicks, [{"seconds": 1}])
    assert failed.value.cause.startswith("KeyError")


def test_a_registry_is_asked_for_by_name() -> None:
    """B11: nothing guesses where it is."""
    with pytest.raises(RegistryNotGiven) as refused:
        run_transform(ROOT / "dags" / "payments_avro.yaml", [b"\0\0\0\0\1"])
    assert refused.value.connection == "tidemark_registry"


def test_columns_that_a_registry_tells_are_not_guessed(clicks: Path) -> None:
    """B11"""
    change(clicks, decode={"format": "avro", "registry": "r", "schema": "registry"})
    with pytest.raises(FieldsInRegistry) as refused:
        run_transform(clicks, [b""])
    assert refused.value.sections == ("decode",)


def test_the_worked_example_of_change_events() -> None:
    """B11: a decode with an envelope, two targets."""
    event = {"op": "c", "before": None, "source": {}, "after": {"order_id": 7}}
    made = run_transform(ROOT / "dags" / "orders_cdc.yaml", [json.dumps(event)])
    assert all(made.by_target.values())


@pytest.mark.usefixtures("ddl_postgres")
def test_the_example_of_the_page_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: as it stands there."""
    page = (ROOT / "docs" / "testing-pipelines.md").read_text()
    example: dict[str, Any] = {}
    exec(page.split("```python")[1].split("```")[0], example)
    monkeypatch.chdir(ROOT)
    example["test_an_order_becomes_a_row"]()
    example["test_the_rows_fit_the_tables"]()


@pytest.mark.usefixtures("ddl_postgres")
def test_a_statement_that_lacks_a_column_of_the_worked_example_is_told() -> None:
    """B11: of the history alone: orders do not have the mark of a deletion."""
    ddl = (ROOT / "dags" / "orders_cdc.sql").read_text()
    [fault] = ddl_faults(
        ROOT / "dags" / "orders_cdc.yaml", ddl.replace("    deleted boolean,\n", "")
    )
    assert fault.startswith('"public"."order_history": "deleted": the table lacks it')
    [fault] = ddl_faults(ROOT / "dags" / "orders_cdc.yaml", ddl.replace(" PRIMARY KEY", ""))
    assert fault == (
        '"public"."orders" has no unique index on exactly ("order_id"), which an upsert needs (not'
        ' partial, not deferrable); run: CREATE UNIQUE INDEX ON "public"."orders" ("order_id");'
    )


def test_a_time_that_python_does_not_have_is_a_text(clicks: Path) -> None:
    """B11: Postgres has years of five digits."""
    module = yaml.safe_load(clicks.read_text())["transform"].partition(":")[0]
    change(clicks, transform=f"{module}:far")
    [row] = run_transform(clicks, [{"page": "/", "seconds": 11}]).rows
    assert (row["page"], row["day"]) == ("/", "29349-01-26")


def test_an_update_of_a_key_is_two_rows_to_a_test_as_to_a_run(clicks: Path) -> None:
    """B11, B12."""
    decode = {"envelope": "debezium", "schema": {"page": "string", "seconds": "int"}}
    target = {"connection": "w", "table": "public.clicks", "mode": "upsert", "key": ["page"],
              "deleted": "deleted"}  # fmt: skip
    change(clicks, decode=decode, target=target)
    before, after = {"page": "/a", "seconds": 11}, {"page": "/b", "seconds": 12}
    made = run_transform(clicks, [{"op": "u", "before": before, "after": after}])
    assert [(row["page"], row["deleted"]) for row in made.rows] == [("/a", True), ("/b", False)]
