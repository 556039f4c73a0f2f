"""The rooms of the library, as the docstrings of their packages and the imports say.

What each is for, its doors, and what it may not do. A door is a module that another room imports.
"""

import tomllib
from ast import get_docstring, parse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp
from scripts.docs.markdown_pieces import table

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "tidemark"


@dataclass(frozen=True, slots=True)
class Room:
    """What the docstring of a room's package says."""

    name: str
    what: str
    doors: str
    may_not: str

    @property
    def doors_named(self) -> set[str]:
        """The modules that it names as its doors; none of a room that no other imports."""
        return {*self.doors.partition(";")[0].split(", ")} - {"none"}


def rooms() -> list[Room]:
    """All rooms that are packages, from the ground up, as the linter's layers are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    layers = reversed(project["importlinter"]["contracts"][0]["layers"])
    names = [name.strip() for layer in layers for name in layer.split("|")]
    return [_room(name) for name in names if (PACKAGE / name / "__init__.py").exists()]


def _room(name: str) -> Room:
    text = get_docstring(parse((PACKAGE / name / "__init__.py").read_text())) or ""
    what, doors, may_not = (" ".join(part.split()) for part in text.split("\n\n"))
    return Room(name, what, doors.removeprefix("Doors: ").removesuffix("."), may_not)


def modules_of(room: str) -> set[str]:
    """The modules of a room, by their names in it."""
    start = f"tidemark.{room}."
    return {one.removeprefix(start) for one in _graph().modules if one.startswith(start)}


def doors_of(room: str) -> set[str]:
    """The modules of a room that another room imports."""
    inside = f"tidemark.{room}"
    importers = {
        name: _graph().find_modules_that_directly_import(f"{inside}.{name}")
        for name in modules_of(room)
    }
    return {
        name
        for name, found in importers.items()
        if any(not f"{one}.".startswith(f"{inside}.") for one in found)
    }


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("tidemark", "tidemark_local", cache_dir=None)


def rooms_table() -> str:
    """The table of CONTRIBUTING.md."""
    rows = ((f"`{one.name}`", one.what, one.doors, one.may_not) for one in rooms())
    return table(("room", "what it is for", "doors", "what it may not do"), rows)
