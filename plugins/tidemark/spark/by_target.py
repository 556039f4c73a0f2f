"""What a transform returns for several targets: a part for each, by its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.errors import InvalidSettings
from tidemark.model.batch import ONLY


def by_target(made: Any, targets: Sequence[str], kind: str) -> dict[str, Any]:
    """The parts of what a transform made, in the order of the targets; of one target the whole.

    Raises:
        InvalidSettings: it is no mapping with a part, a `kind`, for each of several targets.
    """
    if tuple(targets) == (ONLY,):
        return {ONLY: made}
    names = ", ".join(targets)
    if not isinstance(made, Mapping):
        raise InvalidSettings(
            f"the transform returned {type(made).__name__}; with several targets it must return a"
            f" dict with a {kind} for each of {names}"
        )
    if set(made) != set(targets):
        raise InvalidSettings(
            f"the transform returned rows for {', '.join(map(str, made)) or 'no target'}; the"
            f" pipeline names the targets {names}. Return a {kind} for each, an empty one where"
            " there is nothing"
        )
    return {name: made[name] for name in targets}
