"""Failpoints: named places where a test can make this process die, stop or fail.

Inert unless it is a checkout with its tests, and TIDEMARK_FAILPOINTS is set, for example
`publish.commit.sent=kill@2;mirror.before=stop`: the second time the first point is
reached the process kills itself; the first time the second is reached it stops.
Actions: kill (SIGKILL), kill:<file> (only the first process that makes the file), stop
(SIGSTOP), raise, touch:<file> (leave a trace, go on).
"""

import os
import signal
from collections import Counter
from functools import cache
from pathlib import Path

VARIABLE = "TIDEMARK_FAILPOINTS"
reached: Counter[str] = Counter()
"""How often this process has reached each point that is switched on."""


def is_checkout() -> bool:
    """Whether tests stand beside the library: what is installed, or in an image, has none."""
    return (Path(__file__).resolve().parents[2] / "tests" / "conftest.py").is_file()


IS_CHECKOUT = is_checkout()
"""Else a variable can end nothing."""


class FailpointHit(RuntimeError):
    """A failpoint with the action `raise` was reached."""


def hit(name: str) -> None:
    """Do what the environment says should happen here; nothing if it says nothing."""
    switched_on = IS_CHECKOUT and os.environ.get(VARIABLE)
    if not switched_on:
        return
    rule = _parse(switched_on).get(name)
    if rule is None:
        return
    action, at_hit = rule
    reached[name] += 1
    if reached[name] == at_hit:
        _act(name, action)


@cache
def _parse(text: str) -> dict[str, tuple[str, int]]:
    rules = {}
    for rule in filter(None, text.split(";")):
        name, _, action = rule.partition("=")
        action, _, at_hit = action.partition("@")
        rules[name.strip()] = (action.strip(), int(at_hit or 1))
    return rules


def _act(name: str, action: str) -> None:
    match action.partition(":"):
        case ("kill", _, path):
            if not path or _is_first(path):
                os.kill(os.getpid(), signal.SIGKILL)
        case ("stop", _, _):
            os.kill(os.getpid(), signal.SIGSTOP)
        case ("raise", _, _):
            raise FailpointHit(f"failpoint {name} was switched on")
        case ("touch", _, path):
            Path(path).touch()
        case _:
            raise ValueError(f"{VARIABLE}: unknown action {action!r} at {name}")


def _is_first(path: str) -> bool:
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
