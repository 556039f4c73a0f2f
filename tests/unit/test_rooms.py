"""The rooms of the library: what their packages say is what the imports say."""

import ast

import pytest
from scripts.docs import rooms
from scripts.docs.rooms import Room, doors_of, modules_of

ALL = rooms.rooms()
ENTRIES = {"errors", "daemon", "testing", "otel", "migrations"}
"""Named from outside of the code: by a table of errors, by Spark, by users, by Alembic."""
MOST_BY_PLACE = 4


@pytest.mark.parametrize("room", ALL, ids=lambda room: room.name)
def test_the_doors_of_a_room_are_what_others_import(room: Room) -> None:
    assert room.doors_named == doors_of(room.name)


@pytest.mark.parametrize("room", [one for one in ALL if one.doors_named], ids=lambda one: one.name)
def test_what_only_its_room_imports_begins_with_an_underscore(room: Room) -> None:
    """A command is named as it is typed; DAG files name what stands in `tidemark.airflow`."""
    inside = {one for one in modules_of(room.name) if one.partition(".")[0] not in ENTRIES}
    if room.name not in ("cli", "airflow"):
        assert {one for one in inside if not one.startswith("_")} == room.doors_named - ENTRIES


def test_a_class_has_a_name_of_its_own_but_for_a_port_and_what_stands_behind_it() -> None:
    found: dict[str, list[str]] = {}
    for module in sorted(rooms.PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(module.relative_to(rooms.PACKAGE)))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert {len(places) for places in twice.values()} == {2}
    assert all("protocol/ports.py" in places for places in twice.values()), twice


def test_a_class_is_given_more_than_four_values_by_name_but_for_a_row_of_sql() -> None:
    """Its own name is enough to know it by, see above; a row comes with a star."""
    classes, by_place = {"cls"}, {}
    for folder in (rooms.PACKAGE, rooms.ROOT / "tools"):
        for module in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(module.read_text())):
                if isinstance(node, ast.ClassDef):
                    classes.add(node.name)
                elif (
                    isinstance(node, ast.Call)
                    and len(node.args) > MOST_BY_PLACE
                    and not any(isinstance(one, ast.Starred) for one in node.args)
                ):
                    by_place[module.name, node.lineno] = ast.unparse(node.func)
    found = {at: name for at, name in by_place.items() if name.rpartition(".")[2] in classes}
    assert not found
