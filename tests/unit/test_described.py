"""What a DAG carries of its pipeline."""

import json
from pathlib import Path

import pytest
import yaml

from tidemark.settings.described import Described, Role
from tidemark.settings.errors import DagOfOtherVersion
from tidemark.settings.pipeline import Pipeline

DAGS = Path(__file__).resolve().parents[2] / "dags"
FULL = {
    "region": "full",
    "kafka": {"connection": "k", "topics": ["a", "^b.*"], "group": "g"},
    "decode": {
        "format": "avro",
        "registry": "r",
        "subject": "a-value",
        "schema": "registry",
        "metadata": ["timestamp"],
    },
    "targets": {
        "one": {"connection": "w", "table": "public.one", "mode": "upsert", "key": ["id"]},
        "two": {"connection": "w", "table": "public.two"},
    },
    "output": {"topic": "out", "target": "one"},
    "batch": {"max_records": 7, "max_seconds": 50},
    "dead_letters": {"max_ratio": 0.25, "topic": "dead"},
    "transform": "jobs.x:transform",
    "members": 3,
}


def full(tmp_path: Path) -> Pipeline:
    file = tmp_path / "full.yaml"
    file.write_text(yaml.safe_dump(FULL))
    return Pipeline.load(file)


@pytest.mark.parametrize("name", ["flights", "orders_cdc", "payments_avro", None])
def test_all_but_the_fields_comes_back_without_the_file(name: str | None, tmp_path: Path) -> None:
    pipeline = Pipeline.load(DAGS / f"{name}.yaml") if name else full(tmp_path)
    found = Described.from_json(Described.of(pipeline, Role.reset).to_json())
    assert found is not None
    assert (found.role, found.format) == (Role.reset, pipeline.decode.format)
    assert found.file == pipeline.path.name
    kept, whole = (one.model_dump(exclude={"decode"}) for one in (found.pipeline, pipeline))
    assert kept == whole


def test_it_is_the_same_text_each_time_so_that_a_dag_has_no_new_version(tmp_path: Path) -> None:
    pipeline = full(tmp_path)
    assert len({Described.of(pipeline, Role.run).to_json() for _ in range(3)}) == 1


@pytest.mark.parametrize("text", ["", "x", "[]", "1", "{}", '{"other": 1}', "null"])
def test_another_task_carries_nothing(text: str) -> None:
    assert Described.from_json(text) is None


def test_what_another_version_wrote_is_named() -> None:
    text = json.dumps({"tidemark": {"role": "run", "pipeline": {"region": "r"}}})
    with pytest.raises(DagOfOtherVersion):
        Described.from_json(text)
