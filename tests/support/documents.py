"""Reading the documents: their links, code blocks, commands and tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATING = ROOT / "docs" / "operating.md"
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"\s+#.*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def documents() -> list[Path]:
    """All pages that a reader is given."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(page: Path) -> list[Block]:
    """The fenced blocks, without the indentation of a list that they stand in."""
    text = page.read_text()
    return [
        Block(page.name, text[: m.start()].count("\n") + 1, m[2], m[3].replace(f"\n{m[1]}", "\n"))
        for m in _FENCE.finditer(text)
    ]


def in_language(language: str) -> list[Block]:
    """The fenced blocks of all pages in a language."""
    return [block for page in documents() for block in blocks(page) if block.language == language]


def prose(page: Path) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def spans(page: Path) -> list[str]:
    """What stands in backticks in the prose."""
    return [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", prose(page))]


def links(page: Path) -> list[str]:
    """Targets of links within the repository."""
    text = re.sub(r"`[^`]*`", "", prose(page))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings."""
    if page.is_dir() or page.suffix != ".md":
        return set()
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(page: Path) -> Iterator[str]:
    """Calls of `tidemark`, in shell blocks and in backticks."""
    shell = [line for block in blocks(page) if block.language == "sh" for line in _lines(block)]
    for text in [*shell, *spans(page)]:
        found = re.fullmatch(r"(?:\.venv/bin/)?(tidemark [a-z].*)", text)
        if found:
            yield found[1].partition(" > ")[0]  # a file of the shell is no argument


def make_targets(page: Path) -> Iterator[str]:
    """Targets of `make` that a reader is told to call."""
    shell = [line for block in blocks(page) if block.language == "sh" for line in _lines(block)]
    for text in [*shell, *spans(page)]:
        yield from re.findall(r"^make ([a-z-]+)", text)


def table_rows(page: Path, *head: str) -> list[list[str]]:
    """The rows of all tables whose first columns have these titles."""
    rows, inside = [], False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif tuple(cells[: len(head)]) == head:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def _lines(block: Block) -> list[str]:
    return [_COMMENT.sub("", line).strip() for line in block.text.splitlines()]


def documented(part: str) -> str:
    """The one SQL statement of the documents that holds this part."""
    every = [block for page in documents() for block in blocks(page)]
    [found] = {one.text for one in every if one.language == "sql" and part in one.text}
    return found
