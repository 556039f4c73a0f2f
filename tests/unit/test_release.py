"""B11: what a release bears: one version, named by the changes; images that are pinned, no root."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from scripts import release_check

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
    """B11: and connections of the worked examples, from a Secret."""
    assert VALUES["airflowVersion"] == pinned("apache-airflow")
    assert f"apache/airflow:{pinned('apache-airflow')}-" in (ROOT / IMAGES[1]).read_text()
    named = {one["envName"] for one in VALUES["secret"]}
    assert named == {"AIRFLOW_CONN_TIDEMARK_KAFKA", "AIRFLOW_CONN_TIDEMARK_WAREHOUSE"}


def test_what_is_tried_is_what_the_project_promises() -> None:
    """B11: all extras but none of development, and each Python that the project names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(release_check.EXTRAS.split(",")) == set(project["project"]["optional-dependencies"])
    assert project["project"]["requires-python"] == f">={release_check.PYTHONS[0]}"
    assert (
        f"Python {release_check.PYTHONS[0]} to {release_check.PYTHONS[-1]}"
        in (ROOT / "CONTRIBUTING.md").read_text()
    )


def test_the_changes_must_name_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """B11"""
    monkeypatch.setattr(tidemark, "__version__", "9.9.9")
    with pytest.raises(release_check.Broken, match=r"CHANGELOG\.md has no section 9\.9\.9"):
        release_check.build()
