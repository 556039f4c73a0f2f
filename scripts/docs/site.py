"""The docs site, in .tidemark/site/html: it opens from the disk and loads nothing from elsewhere.

`python -m scripts.docs.site [REPOSITORY]`, which `make docs` calls; with the repository's address,
links to its files lead there. A warning is an error: a link or an anchor that leads nowhere.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from scripts.docs.reference_pages import reference_pages
from scripts.docs.site_pages import ROOT, copy_pages
from scripts.docs.site_scripts import CACHE, MERMAID, WORKER, have_scripts

SITE = ROOT / ".tidemark" / "site"
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
"""What the theme's plugin `offline` puts into pages."""
FENCE = {
    "name": "mermaid",
    "class": "mermaid",
    "format": "!!python/name:pymdownx.superfences.fence_code_format",
}


def build(site: Path, repository: str | None, *, with_scripts: bool) -> Path:
    """The folder of the site's pages.

    With scripts its diagrams are drawn, and the search works in pages that the disk gives.

    Raises:
        subprocess.CalledProcessError: mkdocs warns of something, or fails.
    """
    pages = site / "pages"
    shutil.rmtree(site, ignore_errors=True)
    pages.mkdir(parents=True)
    names = copy_pages(pages, repository)
    for script in (MERMAID, WORKER) if with_scripts else ():
        shutil.copy(CACHE / script.name, pages)
    for name, text in reference_pages().items():
        (pages / name).write_text(text)
        names.add(name)
    file = site / "mkdocs.yml"
    file.write_text(_settings(site, names, with_diagrams=with_scripts))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(file)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, check=True, cwd=ROOT, env=quiet)  # noqa: S603 -- our own words
    _without_cdn(site / "html", with_scripts=with_scripts)
    return site / "html"


def _settings(site: Path, names: set[str], *, with_diagrams: bool) -> str:
    """mkdocs.yml for this folder; pages that its navigation lacks stand at the end."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found |= {"docs_dir": str(site / "pages"), "site_dir": str(site / "html")}
    if rest := sorted(names - set(_named(found["nav"]))):
        found["nav"].append({"More": rest})
    fences = [FENCE] if with_diagrams else []
    found["markdown_extensions"] += [{"pymdownx.superfences": {"custom_fences": fences}}]
    found["extra_javascript"] = [MERMAID.name] if with_diagrams else []
    text = yaml.safe_dump(found, sort_keys=False)
    return text.replace(f"'{FENCE['format']}'", FENCE["format"])


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [name for one in inner for name in _named(one)]


def _without_cdn(html: Path, *, with_scripts: bool) -> None:
    """Pages load nothing from elsewhere: it is beside them, or left out."""
    own = f'<script src="{WORKER.name}"></script>' if with_scripts else ""
    for page in html.glob("*.html"):
        page.write_text(page.read_text().replace(SHIM, own))


if __name__ == "__main__":
    has_scripts = have_scripts()
    if not has_scripts:
        print("tidemark: no npm: diagrams stand as text, search needs a server", file=sys.stderr)
    html = build(SITE, next(iter(sys.argv[1:]), None), with_scripts=has_scripts)
    print(html / "index.html")
