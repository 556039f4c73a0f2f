"""The user's transform: found by its name, and what it returns."""
# ruff: noqa: TID253 -- imported only once there is something to read

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pyspark.sql import DataFrame

from tidemark.errors import (
    InvalidSettings,
    TransformFailed,
)
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.failure import cause

Transform = Callable[[DataFrame], DataFrame]


def transform_of(pipeline: Pipeline) -> Transform:
    """The pipeline's transform; the identity where it names none.

    Raises:
        InvalidSettings: there is no such module or function.
        TransformFailed: its module raises when it is imported.
    """
    if pipeline.transform is None:
        return lambda frame: frame
    module, _, name = pipeline.transform.partition(":")
    try:
        found: Any = getattr(_imported(module, pipeline.transform), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InvalidSettings(
            f"transform {pipeline.transform}: {error}; name an importable module:function"
            f" (its project, {pipeline.project}, must be on PYTHONPATH)"
        ) from error
    return found  # type: ignore[no-any-return]


def _imported(module: str, transform: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise
        raise TransformFailed(
            f"transform {transform} cannot be imported: {cause(error)}. Correct it, then run again"
        ) from None


def transformed(transform: Transform, frame: DataFrame) -> DataFrame:
    """What the transform returns.

    Raises:
        InvalidSettings: it is no DataFrame.
    """
    rows = transform(frame)
    if not isinstance(rows, DataFrame):
        raise InvalidSettings(
            f"the transform returned {type(rows).__name__}; it must return a DataFrame"
        )
    return rows
