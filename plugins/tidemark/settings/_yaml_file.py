"""A YAML file: what it holds, and each fault by file, line and key."""

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from tidemark.settings.errors import FaultAtLine, FileNotYaml, FileUnreadable
from tidemark.settings.fault_texts import did_you_mean, fault_text

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_NAME = "[key]"
"""What pydantic adds to the location of a key that is wrong itself."""

MOST_NODES = 100_000
"""Keys and values of a file, with each alias written out."""

MOST_DEPTH = 100
"""Levels of a file, as it is written."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Airflow reads each file whenever it parses the DAGs: libyaml takes a tenth of the time."""


def read(path: Path) -> tuple[yaml.Node | None, Any]:
    """The file's nodes, which know their lines, and its content; None for an empty file.

    Raises:
        InvalidSettings: it can't be read, or is no YAML in UTF-8.
    """
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileUnreadable(file=path, cause=str(error.strerror)) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        cause = f"line {line} is not UTF-8: save the file as UTF-8"
        raise FileNotYaml(file=path, line=line, cause=cause) from error
    except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
        # PyYAML hands on what Python says of a day that does not exist, or of `!!bool maybe`.
        cause = f"a value can't be read as the date, number or tag that it looks like: {error}"
        raise FileNotYaml(file=path, line=None, cause=cause) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise FileNotYaml(
            file=path, line=mark.line + 1 if mark else None, cause=" ".join(str(error).split())
        ) from error


def _parsed(text: str) -> tuple[yaml.Node | None, Any]:
    _refuse_deep(text)
    loader = LOADER(text)
    try:
        root = loader.get_single_node()
        _refuse_bombs(root)
        return root, root and loader.construct_document(root)
    finally:
        loader.dispose()


def _refuse_deep(text: str) -> None:
    """Composing nodes recurses in C, which no recursion limit of Python ends: it kills the process.

    Raises:
        YAMLError: it is too deep, or no YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            mark: Any = event.start_mark  # libyaml's own kind, too
            raise yaml.MarkedYAMLError(
                problem=f"it is over {MOST_DEPTH} levels deep", problem_mark=mark
            )


def _refuse_bombs(root: yaml.Node | None) -> None:
    """Aliases may say a thing again, but not so often that a short file becomes a large one.

    Raises:
        YAMLError: they do, or a node holds itself.
    """
    try:
        size = 0 if root is None else _size(root, {})
    except RecursionError:
        size = inf
    if root is not None and size > MOST_NODES:
        problem = f"written out, it is deeper than a file can be, or has over {MOST_NODES:,} values"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=root.start_mark)


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """Nodes below this one, each alias written out; infinite where it holds itself."""
    if id(node) not in known:
        known[id(node)] = inf  # until it is known: who meets it below itself adds that
        known[id(node)] = 1 + sum(_size(one, known) for one in _children(node))
    return known[id(node)]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for one in node.value if isinstance(node, yaml.CollectionNode) else ():
        yield from one if isinstance(one, tuple) else (one,)


def faults(
    root: yaml.Node | None,
    error: ValidationError,
    model: type[BaseModel],
    patterns: Mapping[str, str],
) -> tuple[FaultAtLine, ...]:
    """All faults that pydantic found in a file of this model, in our words."""
    found = [fault for fault in error.errors() if not _is_of_the_other_branch(fault)]
    places = [fault["loc"] for fault in found]
    return tuple(
        _fault(root, dict(fault), model, patterns)
        for fault in found
        # A list whose entries are wrong counts as empty.
        if not (fault["type"] == "too_short" and any(_is_in(fault["loc"], at) for at in places))
    )


def _fault(
    root: yaml.Node | None,
    fault: dict[str, Any],
    model: type[BaseModel],
    patterns: Mapping[str, str],
) -> FaultAtLine:
    keys = [part for part in fault["loc"] if not _is_union_branch(part) and part != _NAME]
    message = fault_text(fault, patterns)
    if fault["type"] == "extra_forbidden":
        message += did_you_mean(keys[-1], _known_keys(model, keys[:-1]))
    elif fault["input"] and len(keys) < len(fault["loc"]) and fault["type"] == "enum":
        message += "; or keys: timestamp" if keys[-1] == "start" else "; or field: type"
    key = ".".join(map(str, keys))
    return FaultAtLine(line=_line(root, keys), key=key, problem=message)


def _is_of_the_other_branch(fault: "ErrorDetails") -> bool:
    """Of a union pydantic tells the faults of each branch: keys were meant, or one of the words."""
    branch = next((part for part in fault["loc"] if _is_union_branch(part)), None)
    if branch is None:
        return False
    is_word = "enum[" in str(branch)
    return is_word == isinstance(fault["input"], dict) and fault["loc"][-1] == branch


def _is_in(place: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(other) > len(place) and other[: len(place)] == place


def _known_keys(model: type[BaseModel], keys: list[Any]) -> list[str]:
    """The keys that a section of the file may have."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not keys:
        return list(fields)
    inner = fields[keys[0]].annotation if keys[0] in fields else None
    below = keys[2:] if get_origin(inner) is dict else keys[1:]
    for kind in (inner, *get_args(inner)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return _known_keys(kind, below)
    return []


def _is_union_branch(part: object) -> bool:
    """Pydantic names the tried type of a union in the location: no key of the file."""
    return isinstance(part, str) and (
        part == "FromTimestamp" or part.startswith("dict[") or "enum[" in part
    )


def _line(node: yaml.Node | None, keys: list[Any]) -> int:
    line = node.start_mark.line + 1 if node else 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next((kv for kv in node.value if kv[0].value == str(key)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
            line = node.start_mark.line + 1
    return line
