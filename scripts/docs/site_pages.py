"""The pages of the site: those of docs/ and of the project's folder, with links that hold there."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the project's folder, by their name in the site."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`(?!\]\())", re.DOTALL | re.MULTILINE)


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
