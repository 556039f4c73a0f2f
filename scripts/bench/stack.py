"""A stack of one bench, gone when it ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
console = Console(width=100)


@contextmanager
def stack_of(
    name: str, parts: Sequence[str] = ("kafka", "postgres"), *, keep: bool = False
) -> Iterator[LocalStack]:
    """Start the parts in .tidemark/NAME; erase them at the end, unless they are kept."""
    stack = LocalStack(ROOT / ".tidemark" / name, ROOT, tell=_tell)
    stack.up(list(parts))
    try:
        yield stack
    finally:
        if not keep:
            stack.down(erase=True)


def _tell(part: str, text: str) -> None:
    console.print(f"  {part}: {text}")
