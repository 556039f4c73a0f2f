"""The docs site: hooks of mkdocs.yml. `make docs` builds it, `python -m mkdocs serve` shows it.

Its pages are those of docs/ and of the project's folder, with links that hold in both places, and
those that are made of the code. A link to another file leads to the repository, if its address is
in $REPOSITORY; else it is text. It opens from the disk and loads nothing from elsewhere: npm
fetches what pages load, once and pinned.
"""

import hashlib
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from scripts.docs.reference_pages import reference_pages

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path.home() / ".cache" / "tidemark" / "site"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the project's folder, by their name in the site."""
SCRIPTS = {
    "mermaid-11.12.2.js": (
        "dist/mermaid.min.js",
        "d0830a6c05546e9edb8fe20a8f545f3e0dc7c4c3134d584bad9c13a99d7a71e0",
    ),
    "iframe-worker-1.0.4.js": (
        "shim/index.js",
        "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
    ),
}
"""Files of npm's packages, with their hashes: what draws the diagrams (from 11.13 on it names
arrowheads as the theme's colours don't expect), and what lets the search work from the disk."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`(?!\]\())", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Without npm, diagrams stand as text, and search needs a server."""
    if not all((CACHE / name).exists() or fetched(name) for name in SCRIPTS):
        config.extra_javascript, config.extra["polyfills"] = [], []
        config.mdx_configs["pymdownx.superfences"] = {}


def fetched(name: str) -> bool:
    """Whether npm is there; the script is in CACHE then.

    Raises:
        SystemExit: what was fetched is not what is pinned.
    """
    npm = shutil.which("npm")
    if npm is None:
        return False
    member, sha256 = SCRIPTS[name]
    package, _, version = name.removesuffix(".js").rpartition("-")
    with TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", f"{package}@{version}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 -- pinned
        shutil.unpack_archive(f"{folder}/{package}-{version}.tgz", folder, filter="data")
        content = (Path(folder) / "package" / member).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"tidemark: npm's {package}@{version} is not the one that is pinned")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / name).write_bytes(content)
    return True


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what stands elsewhere."""
    scripts = {name: CACHE / name for name in SCRIPTS if (CACHE / name).exists()}
    pages = {name: ROOT / source for source, name in OUTSIDE.items()}
    for name, path in (scripts | pages).items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, text in reference_pages().items():
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links lead within the site, or to the repository."""
    outside = {name: source for source, name in OUTSIDE.items()}
    source = outside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return "".join(
        part if part.lstrip().startswith("`") else _LINK.sub(partial(_relinked, source), part)
        for part in _CODE.split(markdown)
    )


def _relinked(source: str, match: re.Match[str]) -> str:
    mark, label, link = match.groups()
    file, hash_, anchor = link.partition("#")
    if "://" in link or not file:
        return match[0]
    path = Path(os.path.normpath(f"{Path(source).parent}/{file}"))
    if str(path) in OUTSIDE:
        return f"[{label}]({OUTSIDE[str(path)]}{hash_}{anchor})"
    if path.parent.name == "docs" and path.suffix in {".md", ".svg", ".png"}:
        return f"{mark}[{label}]({path.name}{hash_}{anchor})"
    repository = os.environ.get("REPOSITORY")
    return f"[{label}]({repository}/blob/main/{path})" if repository else label
