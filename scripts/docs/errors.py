"""What is written of the errors: their table in docs/errors.md, and the text of each case.

`python -m scripts.docs.errors --write` writes both; without it the texts go to stdout.
"""

import importlib
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import Any

from scripts.docs.markdown_pieces import between, table

import tidemark
import tidemark_local
from tidemark.errors import TidemarkError, by_code

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
TEXTS = ROOT / "tests" / "unit" / "error_texts.txt"
MARKS = ("<!-- errors:start -->\n", "<!-- errors:end -->")
PACKAGES = (tidemark, tidemark_local)
PLAIN = {
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
    head = ("code", "exit", "retry", "what it means", "what to do")
    return table(head, (_row(kind) for kind in by_code().values()))


def _row(kind: type[TidemarkError]) -> tuple[str, ...]:
    retry = "yes" if kind.retry_may_help else "no"
    more = f" [More]({kind.see})" if kind.see else ""
    meaning = cleandoc(kind.__doc__ or "")
    return f"`{kind.code}`", str(kind.exit_code), retry, meaning, kind.hint + more


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    return between(text, MARKS, errors_table())


def texts() -> str:
    """The text of each case, made of samples of its fields' types, in the order of codes."""
    for module in _modules():
        importlib.import_module(module)
    ours = tuple(f"{package.__name__}." for package in PACKAGES)
    found = [kind for kind in _cases() if kind.__module__.startswith(ours)]
    told = (
        f"{kind.code} {kind.__name__}\n{indent(str(_sample_of(kind)), '    ')}\n"
        for kind in sorted(found, key=lambda kind: (kind.code, kind.__name__))
        if "hint" not in vars(kind)
    )
    return "\n".join(told)


def _cases() -> Iterator[type[TidemarkError]]:
    """Every class of an error that is imported, codes before their cases."""
    waiting: list[type[TidemarkError]] = [*by_code().values()]
    while waiting:
        kind = waiting.pop(0)
        yield kind
        waiting += kind.__subclasses__()


def _modules() -> Iterator[str]:
    """Where errors stand: in each room's errors.py, and in the local stack's."""
    for package in (Path(one.__path__[0]) for one in PACKAGES):
        for path in sorted(package.rglob("errors.py")):
            yield ".".join(path.relative_to(package.parent).with_suffix("").parts)


def _sample_of(kind: type[Any]) -> Any:
    is_error = issubclass(kind, TidemarkError)
    names = kind._fields if is_error else [one.name for one in fields(kind)]
    hints = typing.get_type_hints(kind)
    return kind(**{name: _sample(hints[name], name) for name in names})


def _sample(wanted: Any, name: str) -> Any:
    """A value of the type; a text is its field's name."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Literal:
        return inner[0]
    if origin in (typing.Union, types.UnionType):
        return _sample(next(one for one in inner if one is not type(None)), name)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_sample(inner[0], name): _sample(inner[1], name)}
    if origin is tuple and inner[-1:] != (...,):
        return tuple(_sample(one, name) for one in inner)
    if origin is not None:
        held = _sample(inner[0], name)
        return (frozenset if issubclass(origin, frozenset | set) else tuple)((held,))
    return _plain(wanted, name)


def _plain(wanted: Any, name: str) -> Any:
    if wanted in PLAIN:
        return NUMBERS.get(name, PLAIN[wanted]) if wanted is int else PLAIN[wanted]
    if not isinstance(wanted, type):
        return f"<{name}>"
    if issubclass(wanted, Enum):
        return next(iter(wanted))
    if issubclass(wanted, Path):
        return wanted(name)
    if issubclass(wanted, BaseException):
        return wanted.__new__(wanted, name)
    return _of_parts(wanted) if _has_parts(wanted) else f"<{name}>"


def _has_parts(wanted: type[Any]) -> bool:
    return typing.is_typeddict(wanted) or hasattr(wanted, "_fields") or is_dataclass(wanted)


def _of_parts(wanted: type[Any]) -> Any:
    if is_dataclass(wanted):
        return _sample_of(wanted)
    hints = typing.get_type_hints(wanted)
    return wanted(**{name: _sample(kind, name) for name, kind in hints.items()})


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text()))
        TEXTS.write_text(texts())
    else:
        print(texts(), end="")
