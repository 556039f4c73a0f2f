"""The kind of a transform: told by the pipeline file, or by the function's annotations."""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args, get_origin

from tidemark.settings.sections import TransformKind
from tidemark.spark.errors import TransformAnnotatedOtherwise, TransformAnnotatedTwice

_KINDS = {
    ("pyarrow", "RecordBatch"): TransformKind.arrow,
    ("pyspark", "DataFrame"): TransformKind.dataframe,
}
_MAPPING = re.compile(r"(?:[\w.]+\.)?(?:dict|Dict|Mapping)\[[^,]*,\s*([\w.]+)\]")
_BY_NAME = {name: kind for (_, name), kind in _KINDS.items()}


def kind_of(
    function: Callable[..., Any], name: str, declared: TransformKind | None
) -> TransformKind:
    """What the function called `name` takes and returns; a DataFrame where nothing says it.

    Raises:
        InvalidSettings: the annotations contradict each other, or what was declared.
    """
    told = set(filter(None, map(_kind, _annotations(function))))
    if len(told) > 1:
        raise TransformAnnotatedTwice(transform=name)
    found = next(iter(told), declared or TransformKind.dataframe)
    if declared not in (None, found):
        raise TransformAnnotatedOtherwise(
            transform=name, declared=str(declared), annotated=str(found)
        )
    return found


def _annotations(function: Callable[..., Any]) -> list[object]:
    """Of the first parameter and of the result; texts where they can't be evaluated."""
    for evaluated in (True, False):
        with suppress(Exception):  # a name may exist for type checkers alone
            signature = inspect.signature(function, eval_str=evaluated)
            parameters = list(signature.parameters.values())[:1]
            return [*(one.annotation for one in parameters), signature.return_annotation]
    return []


def _kind(annotation: object) -> TransformKind | None:
    """Of one, or of a mapping of them by target."""
    if isinstance(annotation, str):
        of_each = _MAPPING.fullmatch(annotation)
        return _BY_NAME.get((of_each[1] if of_each else annotation).rpartition(".")[2])
    if get_origin(annotation) in (dict, Mapping):
        return _kind(get_args(annotation)[-1])
    package = getattr(annotation, "__module__", "").partition(".")[0]
    return _KINDS.get((package, getattr(annotation, "__name__", "")))
