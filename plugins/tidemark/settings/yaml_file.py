"""A YAML file: what it holds, and each fault by file, line and key."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tidemark.errors import InvalidSettings

_COMPLETE = {"missing", "value_error"}
"""Faults whose message needs no value: there is none, or our own validators have named it."""

_PLAIN = (str, int, float, datetime)


def read(path: Path) -> tuple[yaml.Node | None, Any]:
    """The file's nodes, which know their lines, and its content; None for an empty file.

    Raises:
        InvalidSettings: it can't be read, or is no YAML in UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidSettings(f"{path}:{line}: not UTF-8: save the file as UTF-8") from error
    except yaml.YAMLError as error:
        raise InvalidSettings(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def faults(path: Path, root: yaml.Node | None, error: ValidationError) -> str:
    """All faults that pydantic found, a line each."""
    return "\n".join(_fault(path, root, dict(fault)) for fault in error.errors())


def _fault(path: Path, root: yaml.Node | None, fault: dict[str, Any]) -> str:
    keys = [part for part in fault["loc"] if not _is_union_branch(part)]
    message = re.sub(r"^(Value|Assertion) error, ", "", fault["msg"])
    if fault["type"] == "extra_forbidden":
        message = "unknown key"
    elif fault["type"] == "model_type":
        message = "is empty" if fault["input"] is None else "must be keys with values (key: value)"
    elif fault["type"] not in _COMPLETE and isinstance(fault["input"], _PLAIN):
        message += f", got {fault['input']!r}"
    return f"{path}:{_line(root, keys)}: {'.'.join(map(str, keys)) or 'file'}: {message}"


def _is_union_branch(part: object) -> bool:
    """Pydantic names the tried type of a union in the location: no key of the file."""
    return isinstance(part, str) and (part == "FromTimestamp" or "enum[" in part)


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
