"""B11: the docs site: all pages, links and anchors that lead somewhere, nothing from elsewhere."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.docs.reference_pages import reference_pages
from scripts.docs.site import OUTSIDE, ROOT

from tidemark.cli.main import COMMANDS
from tidemark.views.metrics import metrics_of

pytestmark = pytest.mark.long


def built(docs: Path, html: Path, **env: str) -> str:
    """What mkdocs says; there is no npm, and nothing that it fetched before."""
    settings = (ROOT / "mkdocs.yml").read_text()
    file = html.with_suffix(".yml")
    hook = f"hooks: [{ROOT}/scripts/docs/site.py]"
    file.write_text(
        re.sub(r"^hooks: .*", f"{hook}\ndocs_dir: {docs}", settings, flags=re.MULTILINE)
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(file)]
    command += ["--site-dir", str(html)]
    alone = {"PATH": "", "HOME": str(html.parent), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=alone | env, capture_output=True, text=True, check=False
    )
    return f"{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, without what npm would fetch."""
    folder = tmp_path_factory.mktemp("site") / "html"
    told = built(ROOT / "docs", folder, REPOSITORY="https://example.com/us/tidemark")
    assert "WARNING" not in told
    return folder


def test_every_page_is_there_and_can_be_searched(html: Path) -> None:
    """B11: those of docs/ and those that are made of the code."""
    names = {path.stem for path in (ROOT / "docs").glob("*.md")}
    names |= {Path(name).stem for name in (*reference_pages(), *OUTSIDE.values())}
    index = json.loads((html / "search" / "search_index.json").read_text())
    assert names <= {one["location"].partition(".html")[0] for one in index["docs"]}
    assert all((html / f"{name}.html").exists() for name in names)
    assert (html / "run.svg").exists()


def test_pages_load_nothing_from_elsewhere(html: Path) -> None:
    """B11: they are read where there is no network."""
    pages = [page.read_text() for page in html.glob("*.html")]
    loading = r'<(?:script|img|iframe|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+'
    assert [found for page in pages for found in re.findall(loading, page)] == []
    styles = [path.read_text() for path in html.rglob("*.css")]
    assert styles
    assert [found for text in styles for found in re.findall(r"url\(https?:[^)]+", text)] == []


def test_links_to_files_lead_to_the_repository_if_it_is_known(html: Path) -> None:
    """B11: else they are text, for a page can't show them."""
    page = (html / "testing.html").read_text()
    assert 'href="https://example.com/us/tidemark/blob/main/tests/conftest.py"' in page
    assert 'href="first-pipeline.html"' in (html / "index.html").read_text()


BROKEN = ["nowhere.md", "operating.md#nowhere", "#no-such-title"]


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    """B11: also one to an anchor; one to a file without the repository's address is text."""
    shutil.copytree(ROOT / "docs", docs := tmp_path / "docs")
    links = [f"[x]({one})\n" for one in (*BROKEN, "../Makefile")]
    (docs / "demo.md").write_text("# Demo\n\n" + "".join(links))
    told = built(docs, tmp_path / "html")
    assert [one for one in BROKEN if f"'{one}'" not in told] == []
    assert told.count("WARNING") == len(BROKEN)
    assert "Aborted with" in told


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
