"""Write what is made from the code, as `make generated` does.

A part of a page stands between its marks; other files are made whole. A test compares each.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from scripts.docs import configuration, errors, guards, output_schemas, rooms, wrong_files

ROOT = Path(__file__).resolve().parents[2]


def with_parts(parts: Mapping[str, Callable[[], str]], page: str) -> str:
    """The page, with each part made anew between its two marks."""
    for name, make in parts.items():
        start, end = f"<!-- {name}:start -->\n", f"<!-- {name}:end -->"
        before, rest = page.split(start)
        page = f"{before}{start}{make()}{rest[rest.index(end) :]}"
    return page


MADE: dict[str, Callable[[str], str]] = {
    "CONTRIBUTING.md": partial(with_parts, {"rooms": rooms.rooms_table}),
    "docs/configuration.md": partial(with_parts, configuration.PARTS),
    "docs/errors.md": partial(with_parts, {"errors": errors.errors_table}),
    "docs/guards.md": guards.with_tiers,
    "tests/unit/error_texts.txt": lambda _: errors.texts(),
    "tests/unit/wrong_files.txt": wrong_files.as_told,
}
"""What becomes of each file's text."""


if __name__ == "__main__":
    for name, made in MADE.items():
        path = ROOT / name
        path.write_text(made(path.read_text()))
    output_schemas.write()
