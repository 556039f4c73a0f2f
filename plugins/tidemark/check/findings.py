"""Findings: what a check found, and what to do about it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tidemark.check.errors import as_tidemark_error
from tidemark.errors import TidemarkError

T = TypeVar("T")


class State(StrEnum):
    """How a check ended."""

    ok = "ok"
    warned = "warned"
    failed = "failed"
    skipped = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `tidemark check`."""

    check: str
    state: State
    fact: str
    remedy: str = ""


class Wrong(Exception):
    """A check failed: the fact, and the remedy."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.fact = fact
        self.remedy = remedy


class Doubtful(Wrong):
    """Runs work without it, something else doesn't: the fact, and the remedy. It fails nothing."""


class Unknown(Exception):
    """A check could not be made; the text says why. It fails nothing."""


def finding(check: str, look: Callable[[], str]) -> Finding:
    """What the look returned, or why it failed; an error of ours ends with its remedy."""
    try:
        return Finding(check, State.ok, look())
    except Doubtful as doubt:
        return Finding(check, State.warned, doubt.fact, doubt.remedy)
    except Wrong as wrong:
        return Finding(check, State.failed, wrong.fact, wrong.remedy)
    except Unknown as unknown:
        return Finding(check, State.skipped, str(unknown))
    except Exception as error:
        ours = error if isinstance(error, TidemarkError) else as_tidemark_error(error)
        if ours is None:
            raise
        return Finding(check, State.failed, str(ours))


def found_by(check: str, look: Callable[[], tuple[str, T]]) -> tuple[Finding, T | None]:
    """The finding, and what the look found beside its fact; None where it failed."""
    found: list[T] = []

    def fact() -> str:
        told, value = look()
        found.append(value)
        return told

    return finding(check, fact), found[0] if found else None
