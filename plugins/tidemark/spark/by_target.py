"""What a transform returns for several targets: a part for each, by its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.model.batch import ONLY
from tidemark.spark.errors import (
    RowsKind,
    TransformReturnedOne,
    TransformReturnedOtherTargets,
)


def by_target(made: Any, targets: Sequence[str], kind: RowsKind) -> dict[str, Any]:
    """The parts of what a transform made, in the order of the targets; of one target the whole.

    Raises:
        InvalidSettings: it is no mapping with a part, a `kind`, for each of several targets.
    """
    if tuple(targets) == (ONLY,):
        return {ONLY: made}
    names = tuple(targets)
    if not isinstance(made, Mapping):
        raise TransformReturnedOne(returned=type(made).__name__, wanted=kind, targets=names)
    if set(made) != set(targets):
        returned = tuple(map(str, made))
        raise TransformReturnedOtherTargets(returned=returned, wanted=kind, targets=names)
    return {name: made[name] for name in targets}
