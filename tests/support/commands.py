"""The command line as a test drives it: in a project of its own, connected to a world."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.executor import LocalExecutor
from tests.support.schemas import validate
from tests.support.world import World
from typer.testing import CliRunner, Result

from tidemark.cli.main import app
from tidemark.model.offsets import TopicPartition

PIPELINE = "dags/pipeline.yaml"


def settle_in(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is a project with the world's pipeline; the environment connects it."""
    monkeypatch.chdir(folder)
    (folder / "dags").mkdir(exist_ok=True)
    write_pipeline(world)
    for connection in world.connections.values():
        monkeypatch.setenv(*connection.to_env())
    monkeypatch.setattr("tidemark.spark.executor.spark_executor", LocalExecutor)


def write_pipeline(world: World, **settings: Any) -> None:
    """The project's pipeline file is the world's, with these settings merged in by section."""
    found = world.pipeline.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for key, value in settings.items():
        found[key] = found.get(key, {}) | value if isinstance(value, dict) else value
    Path(PIPELINE).write_text(yaml.safe_dump(found))


def tidemark(*arguments: str, exits: int = 0) -> Result:
    """Run a command in this process; it ends with that code, and never with a trace."""
    told = CliRunner().invoke(app, [*arguments])
    assert told.exit_code == exits, told.output
    assert "Traceback" not in told.stderr
    return told


def answer(*arguments: str, exits: int = 0) -> Any:
    """What stdout holds is one JSON document and nothing else, and it follows its schema."""
    found = json.loads(tidemark(*arguments, "-o", "json", exits=exits).stdout)
    validate(arguments, found)
    return found


class Ended(NamedTuple):
    """The error with which a command ended."""

    case: str
    fields: dict[str, Any]


def refusal(*arguments: str, exits: int) -> Ended:
    """The error, as data, with which a command ends in that code."""
    error = answer(*arguments, exits=exits)["error"]
    return Ended(error["case"], error["fields"])


def commit(world: World, partition: TopicPartition, offset: int) -> None:
    """Move the group's offset past the ledger, as a person with Kafka's own tools would."""
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": world.region})
    consumer.commit(offsets=[KafkaPartition(*partition, offset)], asynchronous=False)
    consumer.close()
