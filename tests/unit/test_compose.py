"""docker-compose.yml shares its paths, ports, versions and names with the rest of the project."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.settings.pipeline import Pipeline
from tidemark_local._jars import KAFKA_VERSION

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"airflow-init", "topics"}
AIRFLOW = SERVICES["scheduler"]["environment"]


def pins(file: str) -> dict[str, str]:
    lines = (PROJECT / file).read_text().splitlines()
    matches = [re.match(r"([a-z0-9-]+)(?:\[.*\])?==([\w.]+)$", line) for line in lines]
    return {match.group(1): match.group(2) for match in matches if match}


def example() -> dict[str, str]:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str) -> str:
    """The text with its variables replaced, as Compose does it."""
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda match: example()[match.group(1)], text)


def listener(name: str, key: str) -> str:
    told = filled(SERVICES["kafka"]["environment"][key])
    return dict(entry.split("://") for entry in told.split(","))[name]


def test_every_variable_is_in_the_example_and_none_there_is_idle() -> None:
    assert set(re.findall(r"\$\{(\w+)", TEXT)) == set(example())


def test_a_missing_variable_stops_compose() -> None:
    assert re.findall(r"\$\{\w+\}|\$[A-Za-z]\w*", TEXT) == []
    assert set(re.findall(r"\$\{\w+(:\?[^}]*)\}", TEXT)) == {":?see .env.example"}


def test_no_secret_is_written_in_the_file() -> None:
    secrets = re.findall(r"(?i)(?:password|secret|fernet_key)\w*\"?: (.*)", TEXT)
    assert secrets
    assert [s for s in secrets if "${" not in s and "/passwords.json" not in s] == []


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_is_pinned(name: str) -> None:
    assert re.fullmatch(r"[a-z/-]+:\d+(\.\d+)+(-[a-z]+)?", SERVICES[name]["image"])


def test_versions_are_those_of_the_local_stack_and_the_requirements() -> None:
    locked = pins("requirements.txt")
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert SERVICES["topics"]["image"] == SERVICES["kafka"]["image"]
    assert SERVICES["scheduler"]["image"].endswith(f":{locked['apache-airflow']}")
    assert locked["pyspark"] == locked["pyspark-client"]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_every_long_running_service_says_whether_it_is_well(name: str) -> None:
    assert {"test", "interval", "timeout", "retries"} <= set(SERVICES[name]["healthcheck"])


def test_mounted_paths_exist_and_named_volumes_are_declared() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = (PROJECT / source).exists() if "/" in source else source in COMPOSE["volumes"]
            assert known, volume


def test_ports_are_bound_to_loopback_and_meet_what_listens_inside() -> None:
    ports = {name: SERVICES[name]["ports"] for name in SERVICES if "ports" in SERVICES[name]}
    inside = {name: int(filled(port).rsplit(":", 1)[1]) for name, [port] in ports.items()}
    assert all(port.startswith("127.0.0.1:$") for [port] in ports.values())
    kafka = int(listener("HOST", "KAFKA_LISTENERS").lstrip(":"))
    assert inside == {"kafka": kafka, "postgres": 5432, "api-server": 8080, "registry": 8081}
    assert ":8080/execution/" in AIRFLOW["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"]
    assert filled(AIRFLOW["AIRFLOW__API__BASE_URL"]).endswith(f":{example()['AIRFLOW_PORT']}")


def test_the_worked_example_finds_its_topic_and_connections() -> None:
    pipeline = Pipeline.load(PROJECT / "dags" / "flights.yaml")
    command = SERVICES["topics"]["command"]
    assert [f"--topic={name}" for name in pipeline.kafka.topics] == [command[-2]]
    used = {pipeline.kafka.connection, pipeline.warehouse, pipeline.spark.connection}
    assert {f"AIRFLOW_CONN_{name.upper()}" for name in used} <= set(AIRFLOW)
