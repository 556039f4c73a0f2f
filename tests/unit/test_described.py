"""What a DAG carries of its pipeline."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tidemark.settings.described import MARK, MOST_CHARS, Described, Role
from tidemark.settings.errors import CarriedTooLarge, DagOfOtherVersion
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import CARRIED

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


def carried(**changed: Any) -> str:
    """What a DAG's author may write, beside what `pipeline_dag` does."""
    pipeline = {
        "region": "evil",
        "kafka": {"connection": "k", "topics": ["t"]},
        "decode": {"format": "raw"},
        "target": {"connection": "w", "table": "public.t"},
    }
    found = {"role": "run", "file": "x", "format": "json", "pipeline": pipeline | changed}
    return json.dumps({"tidemark": found})


def test_for_what_a_dag_carries_no_file_is_opened(tmp_path: Path) -> None:
    """G113: a FIFO would hang, /dev/zero would fill the memory."""
    os.mkfifo(tmp_path / "fifo")
    proto = {"format": "protobuf", "schema": {"a": "int"}, "message": "M"}
    for file in (tmp_path / "fifo", Path("/dev/zero")):
        decode = proto | {"descriptor": str(file)}
        with pytest.raises(DagOfOtherVersion):
            Described.from_json(carried(decode=decode))
        with pytest.raises(ValidationError):  # nor by who validates without this look
            Pipeline.model_validate(
                json.loads(carried(decode=decode))["tidemark"]["pipeline"], context={CARRIED: True}
            )


@pytest.mark.parametrize("decode", [{"format": "json", "schema": {"a": "int"}}, {}, None, "raw"])
def test_a_dag_carries_no_fields(decode: object) -> None:
    with pytest.raises(DagOfOtherVersion):
        Described.from_json(carried(decode=decode))


def test_no_pattern_of_a_dag_is_compiled_or_matched() -> None:
    """G113: its author could make it take for ever."""
    topics = ["^(a+)+$", "^(unclosed"]
    text = carried(
        kafka={"connection": "k", "topics": topics},
        output={"topic": "a" * 60 + "b"},
        dead_letters={"topic": "a" * 50 + "b"},
    )
    found = Described.from_json(text)
    assert found is not None
    assert found.pipeline.kafka.topics == tuple(topics)


def test_a_zone_of_a_dag_is_looked_up_in_no_file() -> None:
    """G113: the api-server may have other zones than the dag-processor, and shows the region."""
    zone = "Europe/Newer_Than_The_Server"
    found = Described.from_json(carried(complete={"every": "hour", "zone": zone}))
    assert found is not None
    assert found.pipeline.complete is not None
    assert found.pipeline.complete.zone == zone


def test_what_a_dag_carries_is_bounded() -> None:
    with pytest.raises(CarriedTooLarge) as caught:
        Described.from_json(carried(region="r" * MOST_CHARS))
    assert caught.value.limit == MOST_CHARS


@pytest.mark.parametrize("deep", ["[" * 10**5, '{"a":' * 10**4])
def test_what_is_nested_too_deep_is_named(deep: str) -> None:
    with pytest.raises(DagOfOtherVersion):
        Described.from_json(MARK + deep)


def test_many_topics_are_compared_in_a_moment() -> None:
    """Each with each would take minutes."""
    topics = [f"t{number}" for number in range(20_000)]
    found = Described.from_json(carried(kafka={"connection": "k", "topics": topics}))
    assert found is not None
    assert len(found.pipeline.kafka.topics) == len(topics)
