"""The docs site, in .tidemark/site/html: it opens from the disk and loads nothing from elsewhere.

`python -m scripts.docs.site [REPOSITORY]`, which `make docs` calls; with the repository's address,
links to its files lead there. A warning is an error: a link or an anchor that leads nowhere. Its
pages are those of docs/ and of the project's folder, with links that hold there, and those that are
made of the code. What they load of others is fetched once by npm, pinned, and part of the site.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from scripts.docs.reference_pages import reference_pages

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".tidemark" / "site"
CACHE = Path.home() / ".cache" / "tidemark" / "site"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the project's folder, by their name in the site."""
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
"""What the theme's plugin `offline` puts into pages."""
FENCE = {
    "name": "mermaid",
    "class": "mermaid",
    "format": "!!python/name:pymdownx.superfences.fence_code_format",
}

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`(?!\]\())", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A file of an npm package."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        """Its name in the site."""
        return f"{self.package}-{self.version}.js"


MERMAID = Script(
    "mermaid",
    "11.12.2",
    "dist/mermaid.min.js",
    "d0830a6c05546e9edb8fe20a8f545f3e0dc7c4c3134d584bad9c13a99d7a71e0",
)
"""Draws the diagrams. From 11.13 on it names arrowheads as the theme's colours don't expect."""

WORKER = Script(
    "iframe-worker",
    "1.0.4",
    "shim/index.js",
    "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
)
"""Lets the search work in pages that are opened from the disk."""


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


def copy_pages(to: Path, repository: str | None) -> set[str]:
    """All pages and pictures are in the folder; the names of the pages.

    A link to a file of the repository leads there, if it is known where that is; else it is text.
    """
    pages = {f"docs/{path.name}": path.name for path in (ROOT / "docs").glob("*.md")} | OUTSIDE
    for source, name in pages.items():
        text = (ROOT / source).read_text()
        (to / name).write_text(_relinked(text, Path(source).parent, pages, repository))
    for picture in [*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")]:
        shutil.copy(picture, to)
    return set(pages.values())


def _relinked(text: str, folder: Path, pages: dict[str, str], repository: str | None) -> str:
    def target(match: re.Match[str]) -> str:
        mark, label, link = match.groups()
        file, hash_, anchor = link.partition("#")
        if "://" in link or not file:
            return match[0]
        path = (ROOT / folder / file).resolve().relative_to(ROOT).as_posix()
        if path in pages:
            return f"{mark}[{label}]({pages[path]}{hash_}{anchor})"
        if mark:
            return f"![{label}]({Path(path).name})"
        return f"[{label}]({repository}/blob/main/{path})" if repository else label

    parts = _CODE.split(text)
    return "".join(
        part
        if part.startswith(("```", "`")) or part.lstrip().startswith("```")
        else _LINK.sub(target, part)
        for part in parts
    )


def have_scripts(scripts: Sequence[Script] = (MERMAID, WORKER)) -> bool:
    """Whether they are in CACHE; they are fetched if npm is there.

    Raises:
        SystemExit: what was fetched is not what is pinned.
    """
    return all((CACHE / one.name).exists() or _fetch(one) for one in scripts)


def _fetch(script: Script) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        return False
    with TemporaryDirectory() as folder:
        named = f"{script.package}@{script.version}"
        command = [npm, "pack", "--silent", named]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 -- pinned
        archive = Path(folder) / f"{script.package}-{script.version}.tgz"
        shutil.unpack_archive(archive, folder, filter="data")
        content = (Path(folder) / "package" / script.member).read_bytes()
    if hashlib.sha256(content).hexdigest() != script.sha256:
        raise SystemExit(f"tidemark: npm's {named} is not the one that is pinned")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / script.name).write_bytes(content)
    return True


if __name__ == "__main__":
    has_scripts = have_scripts()
    if not has_scripts:
        print("tidemark: no npm: diagrams stand as text, search needs a server", file=sys.stderr)
    html = build(SITE, next(iter(sys.argv[1:]), None), with_scripts=has_scripts)
    print(html / "index.html")
