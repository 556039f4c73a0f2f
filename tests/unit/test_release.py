"""B11: what a release bears: one version, named by the changes; images that are pinned, no root."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from scripts import (
    release_check,
    release_command,
    release_environment,
    release_image,
    release_pythons,
)

import tidemark

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
    assert all("--constraint requirements.txt" in text for text in _installs(lines))


def _installs(lines: list[str]) -> list[str]:
    text = "\n".join(lines).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith("RUN pip install")]


def test_the_chart_has_the_airflow_that_is_tested() -> None:
    """B11: and the connections of the worked examples; those with a password from a Secret."""
    assert VALUES["airflowVersion"] == pinned("apache-airflow")
    assert f"apache/airflow:{pinned('apache-airflow')}-" in (ROOT / IMAGES[1]).read_text()
    named = {one["envName"] for one in VALUES["secret"]}
    assert named == {"AIRFLOW_CONN_TIDEMARK_KAFKA", "AIRFLOW_CONN_TIDEMARK_WAREHOUSE"}
    [spark] = VALUES["env"]
    local = airflow_environment()[spark["name"]]
    assert json.loads(spark["value"]) == json.loads(local)


def test_what_is_tried_is_what_the_project_promises() -> None:
    """B11: all extras but none of development, and each Python that the project names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(release_environment.BRINGS) == set(project["project"]["optional-dependencies"])
    assert project["project"]["requires-python"] == f">={release_pythons.PYTHONS[0]}"
    assert (
        f"Python {release_pythons.PYTHONS[0]} to {release_pythons.PYTHONS[-1]}"
        in (ROOT / "CONTRIBUTING.md").read_text()
    )


def test_the_changes_must_name_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """B11"""
    monkeypatch.setattr(tidemark, "__version__", "9.9.9")
    with pytest.raises(release_command.Broken, match=r"CHANGELOG\.md has no section 9\.9\.9"):
        release_check.build()


def test_the_image_copies_what_its_wheel_is_made_of() -> None:
    """B11: and .dockerignore lets it through."""
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    needed = {*made["wheel"]["packages"], *made["wheel"]["force-include"], "README.md", "LICENSE"}
    sources = {source for source, _ in release_image.copied(ROOT / "Dockerfile")}
    assert {
        one for one in needed if not any(_is_within(one, source) for source in sources)
    } == set()


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
    sources = [source for source, _ in release_image.copied(ROOT / image)]
    assert len(sources) >= 4
    assert [source for source in sources if not release_image.let_through(source)] == []


def test_an_image_gets_no_secret_and_no_history() -> None:
    """B11"""
    names = (".env", ".git", ".tidemark", "tests")
    assert not any(release_image.let_through(name) for name in names)


def test_the_chart_gives_a_driver_room_and_time_wherever_it_runs() -> None:
    """B11: in the scheduler or in a pod of its own; as long as in the compose file."""
    places = [VALUES["scheduler"], VALUES["workers"]["kubernetes"]]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["scheduler"]
    graces = {f"{place['terminationGracePeriodSeconds']}s" for place in places}
    assert graces == {compose["stop_grace_period"]}
    assert places[0]["resources"] == places[1]["resources"]


def fails_at_first(folder: Path, times: int) -> list[str | Path]:
    """A command that fails so many times, as a registry may."""
    count = folder / "count"
    text = (
        f"echo x >> {count}; [ $(wc -l < {count}) -gt {times} ] || {{ echo no route >&2; exit 7; }}"
    )
    return ["sh", "-c", text]


def test_a_registry_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B11"""
    monkeypatch.setattr(release_command, "PAUSES", (0, 0))
    release_command.fetch("a wheel", fails_at_first(tmp_path, 2))
    assert (tmp_path / "count").read_text().count("x") == 3


def test_what_a_registry_never_gives_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B11: with what was said at last; and each try is seen."""
    monkeypatch.setattr(release_command, "PAUSES", (0, 0))
    with pytest.raises(
        release_command.Broken, match=r"can't have a wheel, asked 3 times.*\nno route"
    ):
        release_command.fetch("a wheel", fails_at_first(tmp_path, 9))
    assert capsys.readouterr().out.count("a wheel: no route; asking again") == 2


def test_a_command_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """B11"""
    monkeypatch.setattr(release_command, "MINUTES", 0.001)
    with pytest.raises(release_command.Broken, match="`sleep 30` took longer"):
        release_command.run(["sleep", "30"])


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_python_is_found_behind_a_shim_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B11: pyenv's shims are on PATH for every version, and run only one."""
    executable(tmp_path / "shims" / "python3.12", "echo 'pyenv: not found' >&2; exit 127")
    real = tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12"
    executable(real, "echo 3.12")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert release_pythons.interpreter("3.12") == real


def test_a_python_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: it is no failure, and not silent."""
    monkeypatch.setattr(release_command, "PAUSES", ())
    found, missing = release_pythons.available(("3.99",))
    assert found == {}
    assert "3.99" in missing["3.99"]
