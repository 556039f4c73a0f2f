"""The user's transform, found by its name."""

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import TransformKind
from tidemark.spark.arrow import ArrowTransform
from tidemark.spark.cause import cause
from tidemark.spark.errors import TransformNotFound, TransformNotImported
from tidemark.spark.kind import kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FrameTransform = Callable[["DataFrame"], "DataFrame | Mapping[str, DataFrame]"]
"""Of several targets it returns a mapping, of one the DataFrame."""
Transform = FrameTransform | ArrowTransform


def transform_of(pipeline: Pipeline) -> Transform | None:
    """The pipeline's transform; None where it names none.

    Raises:
        InvalidSettings: there is no such module or function, or its kind is not clear.
        TransformFailed: its module raises when it is imported.
    """
    if pipeline.transform is None:
        return None
    module, _, name = pipeline.transform.partition(":")
    try:
        found: Any = getattr(_imported(module, pipeline.transform), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise TransformNotFound(
            transform=pipeline.transform, cause=str(error), project=str(pipeline.project)
        ) from error
    kind = kind_of(found, pipeline.transform, pipeline.transform_kind)
    if kind is TransformKind.arrow:
        return ArrowTransform(found, tuple(pipeline.all_targets))
    transform: FrameTransform = found
    return transform


def _imported(module: str, transform: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise
        raise TransformNotImported(transform=transform, cause=cause(error)) from None
