"""What is written of the errors: their table in docs/errors.md, and the text of each case."""

import importlib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import Any

from scripts.docs.markdown_pieces import table

import tidemark
import tidemark_local
from tidemark.errors import TidemarkError, by_code

PACKAGES = (tidemark, tidemark_local)
PLAIN: dict[Any, Any] = {
    int: 7,
    float: 1.5,
    bool: True,
    bytes: b"bytes",
    object: "value",
    type(None): None,
    datetime: datetime(2026, 1, 31, 12, tzinfo=UTC),
}
NUMBERS = {"start": 10, "end": 20, "start_offset": 10, "end_offset": 20}


def errors_table() -> str:
    """Every code with its exit code, what it means and what to do."""
    rows = (
        (
            f"`{kind.code}`",
            str(kind.exit_code),
            "yes" if kind.retry_may_help else "no",
            cleandoc(kind.__doc__ or ""),
            f"{kind.hint} [More]({kind.see})" if kind.see else kind.hint,
        )
        for kind in by_code().values()
    )
    return table(("code", "exit", "retry", "what it means", "what to do"), rows)


def texts() -> str:
    """The text of each case, made of samples of its fields' types, in the order of codes."""
    for package in PACKAGES:
        root = Path(package.__path__[0])
        for path in root.rglob("errors.py"):
            name = path.relative_to(root.parent).with_suffix("")
            importlib.import_module(".".join(name.parts))
    ours = tuple(f"{package.__name__}." for package in PACKAGES)
    found = [
        kind
        for kind in _below(TidemarkError)
        if kind.__module__.startswith(ours) and "hint" not in vars(kind)
    ]
    return "\n".join(
        f"{kind.code} {kind.__name__}\n{indent(str(_of_parts(kind)), '    ')}\n"
        for kind in sorted(found, key=lambda kind: (kind.code, kind.__name__))
    )


def _below(kind: type[TidemarkError]) -> Iterator[type[TidemarkError]]:
    for case in kind.__subclasses__():
        yield case
        yield from _below(case)


def _of_parts(kind: type[Any]) -> Any:
    """An error, a dataclass, a dict or a tuple whose parts are samples."""
    hints = typing.get_type_hints(kind)
    names = kind._fields if issubclass(kind, TidemarkError) else hints
    return kind(**{name: _sample(hints[name], name) for name in names})


def _sample(wanted: Any, name: str) -> Any:
    """A value of the type; a text is its field's name."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is None:
        return _plain(wanted, name)
    if origin is typing.Literal:
        return inner[0]
    if origin in (typing.Union, types.UnionType):
        return _sample(next(one for one in inner if one is not type(None)), name)
    held = tuple(_sample(one, name) for one in inner if one is not ...)
    if issubclass(origin, Mapping):
        return dict([held])
    return frozenset(held) if issubclass(origin, frozenset | set) else held


def _plain(wanted: Any, name: str) -> Any:
    if wanted is int and name in NUMBERS:
        return NUMBERS[name]
    if wanted in PLAIN:
        return PLAIN[wanted]
    if not isinstance(wanted, type):
        return f"<{name}>"
    if issubclass(wanted, Enum):
        return next(iter(wanted))
    if issubclass(wanted, BaseException):
        return wanted.__new__(wanted, name)
    if issubclass(wanted, Path):
        return wanted(name)
    has_parts = typing.is_typeddict(wanted) or hasattr(wanted, "_fields") or is_dataclass(wanted)
    return _of_parts(wanted) if has_parts else f"<{name}>"
