"""B11: the docs site: all pages, links and anchors that lead somewhere, nothing from elsewhere."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from scripts.docs import site
from scripts.docs.reference_pages import reference_pages
from scripts.docs.site import ROOT, copy_pages

from tidemark.cli.main import COMMANDS
from tidemark.views.metrics import metrics_of

pytestmark = pytest.mark.long


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=pytest.mark.long)],
    ids=["without-python", "whole"],
)
def html(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, without what npm would fetch; Python's docstrings take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setattr(site, "reference_pages", _without_python)
        return site.build(tmp_path_factory.mktemp("site"), None, with_scripts=False)


def test_every_page_is_there_and_can_be_searched(html: Path) -> None:
    """B11: those of docs/ and those that are made of the code."""
    names = {path.stem for path in (ROOT / "docs").glob("*.md")}
    names |= {name.removesuffix(".md") for name in reference_pages()} | {"index"}
    index = json.loads((html / "search" / "search_index.json").read_text())
    assert names <= {one["location"].partition(".html")[0] for one in index["docs"]}
    assert all((html / f"{name}.html").exists() for name in names)


def test_pages_load_nothing_from_elsewhere(html: Path) -> None:
    """B11: they are read where there is no network."""
    pages = [page.read_text() for page in html.glob("*.html")]
    loading = r'<(?:script|img|iframe|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+'
    assert [found for page in pages for found in re.findall(loading, page)] == []
    styles = [path.read_text() for path in html.rglob("*.css")]
    assert styles
    assert [found for text in styles for found in re.findall(r"url\(https?:[^)]+", text)] == []


BROKEN = ["nowhere.md", "operating.md#nowhere", "#no-such-title"]


@pytest.mark.long
def test_a_link_that_leads_nowhere_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """B11: also one to an anchor."""

    def copy(to: Path, repository: str | None) -> set[str]:
        names = copy_pages(to, repository)
        (to / "demo.md").write_text("# Demo\n\n" + "".join(f"[x]({one})\n" for one in BROKEN))
        return names

    monkeypatch.setattr(site, "copy_pages", copy)
    monkeypatch.setattr(site, "reference_pages", _without_python)
    with pytest.raises(subprocess.CalledProcessError):
        site.build(tmp_path / "site", None, with_scripts=False)
    told = capfd.readouterr().err
    assert [one for one in BROKEN if f"'{one}'" not in told] == []
    assert told.count("WARNING") == len(BROKEN)


def _without_python() -> dict[str, str]:
    return reference_pages() | {"reference-python.md": "# Python"}


def test_links_to_files_lead_to_the_repository_if_it_is_known(tmp_path: Path) -> None:
    """B11: else they are text, for a page can't show them."""
    copy_pages(tmp_path, "https://example.com/us/tidemark")
    page = (tmp_path / "testing.md").read_text()
    assert "(https://example.com/us/tidemark/blob/main/tests/conftest.py)" in page
    copy_pages(tmp_path, None)
    page = (tmp_path / "testing.md").read_text()
    assert "tests/conftest.py" in page
    assert "](../" not in page
    assert "](docs/" not in (tmp_path / "index.md").read_text()
    assert (tmp_path / "run.svg").exists()
    assert set(site.OUTSIDE.values()) <= {path.name for path in tmp_path.iterdir()}


def test_the_reference_has_every_command_and_metric() -> None:
    """B11: as the code has them."""
    pages = reference_pages()
    for name in COMMANDS:
        if name in {"region", "local"}:
            continue
        assert f"## tidemark {name}" in pages["reference-commands.md"]
    assert "## tidemark local up" in pages["reference-commands.md"]
    assert "```sh\ntidemark reset flights" in pages["reference-commands.md"]
    for metric in metrics_of([]):
        assert f"| `{metric.name}` |" in pages["reference-metrics.md"]
    for name in ("airflow.pipeline_dag", "testing.run_transform", "testing.ddl_faults"):
        assert f"::: tidemark.{name}\n" in pages["reference-python.md"]
