"""B11: what a release bears: one version, named by the changes; images that are pinned, no root."""

import json
import re
import tomllib
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from scripts.release.check import BRINGS, PYTHONS
from tests.conftest import OLD_POSTGRES

import tidemark
from tidemark_local.postgres import packaged

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ["Dockerfile", "deploy/helm/Dockerfile"]
VALUES = yaml.safe_load((ROOT / "deploy/helm/values.yaml").read_text())


def pinned(name: str) -> str:
    """The version of a package in requirements.txt."""
    [found] = re.findall(
        rf"^{name}==([\w.]+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE
    )
    return str(found)


def test_the_version_stands_in_one_place() -> None:
    """B11: packages, --version and the changes have it from there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "plugins/tidemark/__init__.py"
    local = tomllib.loads((ROOT / "tools/pyproject.toml").read_text())
    assert local["project"]["dynamic"] == ["version"]
    assert local["tool"]["hatch"]["version"]["path"] == "../plugins/tidemark/__init__.py"
    extras = project["project"]["optional-dependencies"]
    assert extras["local"] == [f"tidemark-local=={tidemark.__version__}"]
    needed = f"airflow-provider-tidemark=={tidemark.__version__}"
    assert needed in local["project"]["dependencies"]
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == tidemark.__version__
    assert VALUES["defaultAirflowTag"] == tidemark.__version__


@pytest.mark.parametrize("image", IMAGES)
def test_images_are_pinned_and_end_as_nobody_special(image: str) -> None:
    """B11: by a number, which a cluster can check without the image's list of users."""
    lines = (ROOT / image).read_text().splitlines()
    [base] = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert re.fullmatch(r"[\w/]+:\d+\.\d+\.\d+-[\w.-]+", base)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users[-1] == "50000"
    installs = _installs(lines)
    assert installs
    assert all(any(one in text for one in PINNED) for text in installs)


PINNED = ("--constraint requirements.txt", "--constraint requirements.lock", "--require-hashes")


def _installs(lines: list[str]) -> list[str]:
    text = "\n".join(lines).replace("\\\n", " ")
    return re.findall(r"pip install[^&]*", text)


def test_each_file_that_is_installed_has_its_hash() -> None:
    """S24: what a user installs is locked for developers too, beside their own tools."""
    locked = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in locked if not line.startswith("#")]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}\b", line) for line in lines)
    constraints = (ROOT / "requirements.txt").read_text().splitlines()
    pins = {line for line in constraints if re.match(r"[\w.-]+==", line)}
    assert {line.partition(" --hash")[0].strip() for line in lines} > pins
    names = {pin.partition("==")[0] for pin in pins}
    assert (
        names & {"mypy", "ruff", "mkdocs", "airflow-provider-tidemark", "tidemark-local"} == set()
    )


def test_the_chart_has_the_airflow_that_is_tested() -> None:
    """B11: and the connections of the worked examples; those with a password from a Secret."""
    assert VALUES["airflowVersion"] == pinned("apache-airflow")
    assert f"apache/airflow:{pinned('apache-airflow')}-" in (ROOT / IMAGES[1]).read_text()
    named = {one["envName"] for one in VALUES["secret"]}
    assert named == {"AIRFLOW_CONN_TIDEMARK_KAFKA", "AIRFLOW_CONN_TIDEMARK_WAREHOUSE"}
    [spark] = VALUES["env"]
    local = airflow_environment()[spark["name"]]
    assert json.loads(spark["value"]) == json.loads(local)


def test_the_chart_opens_no_door_and_starts_no_more_drivers_than_fit() -> None:
    """B11: its own user is admin with the password admin; Airflow starts 32 tasks at once."""
    assert VALUES["createUserJob"]["enabled"] is False
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    [parallelism] = re.findall(r"CORE__PARALLELISM.: .(\d+)", str(compose))[:1]
    assert VALUES["config"]["core"]["parallelism"] == int(parallelism)


def test_what_is_tried_is_what_the_project_promises() -> None:
    """B11: all extras but none of development, and each Python that the project names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(BRINGS) == set(project["project"]["optional-dependencies"])
    oldest, newest = PYTHONS[0], PYTHONS[-1]
    after = int(newest.partition(".")[2]) + 1
    assert project["project"]["requires-python"] == f">={oldest},<3.{after}"


def test_what_is_installed_is_within_the_bounds() -> None:
    """Nothing else compares them: `make` installs what the lock names, without dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for one in map(Requirement, chain(project["dependencies"], *extras)):
        if one.name not in ("tidemark-local", "airflow-provider-tidemark"):
            assert pinned(one.name) in one.specifier, one


VERSIONS = (ROOT / "README.md").read_text().partition("## Status and versions")[2]
NIGHTLY = (ROOT / ".github/workflows/nightly.yml").read_text()


def told(part: str) -> tuple[str, str]:
    """What the README says of it: tested with, and meant for."""
    [row] = re.findall(rf"^\| {part} \| (.*) \| (.*) \|$", VERSIONS, re.MULTILINE)
    return row[0], row[1]


def extra(package: str) -> str:
    """What pyproject.toml asks of a package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [one for some in extras["optional-dependencies"].values() for one in some]
    [found] = re.findall(rf"^{package}(?:\[\w+\])?([=<>].*)$", "\n".join(asked), re.MULTILINE)
    return str(found)


def test_the_airflow_that_is_promised_is_tested() -> None:
    """G137: the newest with each change, one of each minor each night."""
    newest = pinned("apache-airflow")
    [matrix] = re.findall(r"^ +airflow: (\[.*\])$", NIGHTLY, re.MULTILINE)
    *known, beyond = json.loads(matrix)
    first, last = (int(one.split(".")[1]) for one in (known[0], newest))
    assert [one.split(".")[:2] for one in known] == [["3", f"{n}"] for n in range(first, last + 1)]
    assert beyond == "newest"
    assert extra("apache-airflow") == f">=3.{first},<3.{last + 1}"
    tried, meant = f"{', '.join(known[:-1])} and {known[-1]}", f"3.{first} to 3.{last}"
    assert told("Airflow") == (
        f"{newest}; {tried} for what leans on it, each night",
        f"[{meant}](docs/installing.md#versions-of-airflow)",
    )
    text = (ROOT / "docs/installing.md").read_text()
    assert f"[Airflow {meant}](#versions-of-airflow)" in text
    assert f"on {tried} too" in text
    assert f"AIRFLOW := {known[-1]}\n" in (ROOT / "Makefile").read_text()


def test_the_spark_that_is_promised_is_tested() -> None:
    """G137: one version, because pyspark and pyspark-client share their files."""
    version = pinned("pyspark")
    assert {extra("pyspark"), extra("pyspark-client")} == {f"=={version}"}
    assert told("Spark") == (version, version)
    assert f"of the same version ({version};" in (ROOT / "docs/installing.md").read_text()


def test_each_python_that_is_promised_is_tested() -> None:
    """G137: by `make quick` and a run from Kafka to Postgres, each night."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = re.findall(r"Python :: ([\d.]+)", "\n".join(classifiers))
    [matrix] = re.findall(r"python: (\[.*\])", NIGHTLY)
    assert tuple(named) == tuple(json.loads(matrix)) == PYTHONS
    assert told("Python")[1] == f"{PYTHONS[0]} to {PYTHONS[-1]}"


def test_each_postgres_that_is_promised_is_tested() -> None:
    """G137: 15 and 18 by all tests of Postgres; those between by a run there and back."""
    [(oldest, newest)] = re.findall(r"(\d+) to (\d+)", told("Postgres")[1])
    between = [str(n) for n in range(int(oldest) + 1, int(newest))]
    assert (OLD_POSTGRES.parts[-2], packaged().parts[-2]) == (oldest, f"pginstall{newest}")
    text = (ROOT / "tests/integration/postgres/test_versions.py").read_text()
    assert re.findall(r'^    "(\d+)": ', text, re.MULTILINE) == between
    assert "apt-get install -y postgresql-15 postgresql-17\n" in NIGHTLY  # a package has the others
    assert f"PostgreSQL {oldest} to {newest}" in (ROOT / "docs/administration.md").read_text()


def test_the_image_copies_what_its_wheel_is_made_of() -> None:
    """B11: and .dockerignore lets it through."""
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    needed = {*made["wheel"]["packages"], *made["wheel"]["force-include"]}
    needed |= {"pyproject.toml", "README.md", "LICENSE"}
    sources = copied(ROOT / "Dockerfile")
    assert {
        one for one in needed if not any(_is_within(one, source) for source in sources)
    } == set()


def copied(dockerfile: Path) -> list[str]:
    """What its COPY names."""
    lines = dockerfile.read_text().splitlines()
    return [one for line in lines if line.startswith("COPY ") for one in line.split()[1:-1]]


def let_through(source: str) -> bool:
    """Whether .dockerignore, which ignores all and names exceptions, has this one."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    return any(fnmatch(source, one) or source.startswith(f"{one}/") for one in kept)


def airflow_environment() -> dict[str, str]:
    """Of the compose file."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    found: dict[str, str] = compose["services"]["scheduler"]["environment"]
    return found


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


@pytest.mark.parametrize("image", IMAGES)
def test_nothing_that_an_image_copies_is_ignored(image: str) -> None:
    """B11"""
    sources = copied(ROOT / image)
    assert sources
    assert [source for source in sources if not let_through(source)] == []


def test_an_image_gets_no_secret_and_no_history() -> None:
    """B11"""
    names = (".env", ".git", ".tidemark", "tests")
    assert not any(let_through(name) for name in names)


def test_the_chart_gives_a_driver_room_and_time_wherever_it_runs() -> None:
    """B11: in the scheduler or in a pod of its own; as long as in the compose file."""
    places = [VALUES["scheduler"], VALUES["workers"]["kubernetes"]]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["scheduler"]
    graces = {f"{place['terminationGracePeriodSeconds']}s" for place in places}
    assert graces == {compose["stop_grace_period"]}
    assert places[0]["resources"] == places[1]["resources"]
