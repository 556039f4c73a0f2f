"""Private interfaces of Airflow stand in one file, and are what they were when it was written."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from tests.dags.conftest import PROJECT

PACKAGE = PROJECT / "plugins" / "tidemark"
FILE = PACKAGE / "airflow" / "private.toml"
KEPT: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text())
PUBLIC = (
    "airflow.sdk", "airflow.exceptions", "airflow.plugins_manager", "airflow.timetables",
    "airflow.triggers.base",
    "airflow.providers.common.sql.operators.sql", "airflow.providers.openlineage.extractors",
    "airflow.providers.standard.operators.hitl",
)  # fmt: skip
"""What Airflow's page on its public interface names, and classes of providers used as they are."""


def used() -> Iterator[str]:
    """All that the library imports from Airflow."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from used_in(path)


def used_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow"):
            yield from (f"{node.module}:{name.name}" for name in node.names)


def private(module: ast.Module) -> Iterator[str]:
    """Private attributes that a module touches, without those that it makes itself."""
    made = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    found = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    made |= {node.attr for node in found if isinstance(node.ctx, ast.Store) and own(node)}
    for node in found:
        if re.match("_[^_]", node.attr) and node.attr not in {*made, "_exit"}:  # of os, public
            yield node.attr


def own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def known(name: str) -> bool:
    module = name.partition(":")[0]
    return any(module == one or module.startswith(f"{one}.") for one in PUBLIC)


def test_what_is_not_public_stands_in_the_file_with_its_reason() -> None:
    """G128."""
    assert {name for name in used() if not known(name)} - KEPT.keys() == set()
    assert all(entry["why"] for entry in KEPT.values())


def test_what_is_leaned_on_has_an_upper_bound() -> None:
    """G128: a version that nobody has tried is not installed by itself."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    bound = {one.partition(">=")[0]: one for one in extras["optional-dependencies"]["airflow"]}
    assert {"apache-airflow", "apache-airflow-providers-apache-spark"} <= bound.keys()
    assert [one for one in bound.values() if "<" not in one] == []


@pytest.mark.parametrize("room", ["airflow", "page"])
def test_private_attributes_of_others_stand_in_the_file(room: str) -> None:
    """G128: whatever their modules touch and do not make."""
    listed = {name for entry in KEPT.values() for name in entry.get("has", ())}
    for path in (PACKAGE / room).glob("*.py"):
        assert {*private(ast.parse(path.read_text()))} - listed == set(), path.name


@pytest.mark.parametrize("name", KEPT)
def test_a_private_interface_is_what_it_was(name: str) -> None:
    """G128: it names the one that changed."""
    entry = KEPT[name]
    if name.startswith("airflow.providers.openlineage"):
        pytest.importorskip("airflow.providers.openlineage")
    if not is_of_this_version(entry):
        pytest.skip("of another version of Airflow")
    module, _, path = name.partition(":")
    try:
        found = attrgetter(path)(import_module(module))
    except (ImportError, AttributeError):
        pytest.fail(f"{name} is gone")
    if "takes" in entry:
        assert list(inspect.signature(found).parameters) == entry["takes"]
    if "uses" in entry:
        assert {*entry["uses"]} <= {*inspect.signature(found).parameters}
    missing = [one for one in entry.get("has", ()) if not has(found, one)]
    assert missing == []


def is_of_this_version(entry: dict[str, Any]) -> bool:
    from tidemark.airflow.compat import VERSION

    since, until = (
        tuple(map(int, entry.get(name, usual).split(".")))
        for name, usual in (("since", "3.1"), ("until", "4.0"))
    )
    return since <= VERSION < until


def test_what_another_version_has_is_named_in_one_file() -> None:
    """G128: no other module asks for a version, or takes a name that some versions lack."""
    some = {name for name, entry in KEPT.items() if {"since", "until"} & entry.keys()}
    compat = PACKAGE / "airflow" / "compat.py"
    for path in {*PACKAGE.rglob("*.py")} - {compat}:
        assert {*used_in(path)} & some == set(), path
        assert "airflow.__version__" not in path.read_text(), path


def has(found: Any, attribute: str) -> bool:
    """The class has it, or a method of it sets it, or a field declares it."""
    fields = {*getattr(found, "model_fields", ())}
    fields |= {*(found.__table__.columns.keys() if hasattr(found, "__table__") else ())}
    if hasattr(found, attribute) or attribute in fields:
        return True
    return re.search(rf"self\.{attribute}\b", inspect.getsource(found)) is not None
