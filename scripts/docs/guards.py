"""The table of guards in docs/guards.md: in which tier its tests and seeded bugs stand.

`python -m scripts.docs.guards --write` writes the tiers as the tests' marks say. Nothing is
imported: the tests' source is read.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guards.md"
SEEDED = ROOT / "tests" / "faults" / "test_seeded_bugs.py"
ROW = re.compile(r"^\| G\d+ \|")
TEST, REST = "`test`", "`test-rest`"


@dataclass(frozen=True, slots=True)
class Written:
    """A test as its source shows it."""

    name: str
    docstring: str
    is_long: bool
    """All of it: of a test with parameters, some may be long and some not."""
    seeds: frozenset[str]
    """The seeded bugs that it plants."""


@cache
def written_in(path: Path) -> dict[str, Written]:
    """The tests of a file, by name."""
    tree = ast.parse(path.read_text())
    is_long = any(_is_long(node.value) for node in tree.body if _is_marks(node))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: Written(
            node.name,
            ast.get_docstring(node) or "",
            is_long or any(map(_is_long, node.decorator_list)),
            frozenset(_seeds(node)),
        )
        for node in functions
        if node.name.startswith("test_")
    }


def named(cell: str) -> list[str]:
    """What stands in backticks in a cell of a table, but for tiers."""
    return [name for name in re.findall(r"`([^`]+)`", cell) if f"`{name}`" not in (TEST, REST)]


def written_at(text: str) -> Written:
    """The test of `tests/unit/test_x.py::test_y`.

    Raises:
        LookupError: there is none.
    """
    path, _, name = text.partition("::")
    return written_in(ROOT / path)[name]


def with_tiers(page: str) -> str:
    """The page, with the tier of each guard and of each seeded bug as the marks say."""
    lines = page.split("\n")
    return "\n".join(_with_tiers(line) if ROW.match(line) else line for line in lines)


def _with_tiers(row: str) -> str:
    *cells, tests, _, seeds = row.strip("| ").split(" | ")
    tier = _tier(written_at(text) for text in named(tests))
    told = ", ".join(f"`{seed}` ({_tier(_planting(seed))})" for seed in named(seeds))
    return f"| {' | '.join([*cells, tests, tier, told or '–'])} |"


def _tier(tests: Iterable[Written]) -> str:
    """Where the guard is missed first: one test of the first tier is enough."""
    return REST if all(one.is_long for one in tests) else TEST


def _planting(seed: str) -> Iterator[Written]:
    return (one for one in written_in(SEEDED).values() if seed in one.seeds)


def _is_marks(node: ast.stmt) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _is_long(mark: ast.expr) -> bool:
    marks = mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark]
    return any(ast.unparse(one) == "pytest.mark.long" for one in marks)


def _seeds(test: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "seeded":
            yield from [node.attr] if node.attr.isupper() else []


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_tiers(PAGE.read_text()))
    else:
        print(with_tiers(PAGE.read_text()), end="")
