"""The table of the models' seeded bugs in docs/testing.md: what each is found as, in which tier.

`python -m scripts.docs.model_seeds --write` writes it from the tests' source, which is read and not
run.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.docs.guards import REST, ROOT, TEST, written_in
from scripts.docs.markdown_pieces import between, table

PAGE = ROOT / "docs" / "testing.md"
MODELS = ROOT / "tests" / "model"
MARKS = ("<!-- seeds:start -->\n", "<!-- seeds:end -->")
SEEDED = "test_a_guard_that_is_taken_out_is_missed"


def with_seeds(page: str) -> str:
    """The page with the table as it is now."""
    head = ("model", "taken out", "found as", "tier")
    rows = (row for path in sorted(MODELS.glob("test_*.py")) for row in _rows(path))
    return between(page, MARKS, table(head, rows))


def _rows(path: Path) -> Iterator[tuple[str, ...]]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == SEEDED:
            [cases] = [one for one in node.decorator_list if "parametrize" in ast.unparse(one)]
            assert isinstance(cases, ast.Call)
            all_long = written_in(path)[SEEDED].is_long
            for *seed, is_long in _seeds(cases):
                yield path.stem[5:], *seed, REST if all_long or is_long else TEST


def _seeds(cases: ast.Call) -> Iterator[tuple[str, str, bool]]:
    """What is taken out, or its id where that is a function; what is found then; is it long."""
    ids = [ast.literal_eval(one.value) for one in cases.keywords if isinstance(one.value, ast.List)]
    assert isinstance(cases.args[1], ast.List)
    for place, case in enumerate(cases.args[1].elts):
        is_long = isinstance(case, ast.Call) and "pytest.mark.long" in ast.unparse(case)
        assert isinstance(case, ast.Tuple | ast.Call)
        taken_out, found, *_ = case.elts if isinstance(case, ast.Tuple) else case.args
        if ids:
            yield f"`{ids[0][place]}`", "a way to it", is_long
        else:
            told = str(ast.literal_eval(found)) or "nothing: another guard stands behind it"
            yield _taken_out(taken_out), told, is_long


def _taken_out(named: ast.expr) -> str:
    parts = named.elts if isinstance(named, ast.Set | ast.Tuple) else [named]
    return " and ".join(map(_shown, parts))


def _shown(part: ast.expr) -> str:
    """A text has one guard, or several behind commas; a name is that of a step in place of ours."""
    if isinstance(part, ast.Constant):
        return " and ".join(f"`{guard}`" for guard in str(part.value).split(", "))
    return f"*{ast.unparse(part).lower().replace('_', ' ')}*"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_seeds(PAGE.read_text()))
    else:
        print(with_seeds(PAGE.read_text()), end="")
