"""The user's transform: found by its name, its kind told by the file or by its annotations.

An Arrow transform is a function of one record batch, called where the rows are decoded: no row of
it crosses the JVM, and nothing here needs Spark. For several targets it returns a part for each, by
its name. Columns have one spelling for all, and are the same in each batch as at the start.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pyarrow as pa

from tidemark.model.batch import ONLY
from tidemark.settings.sections import NamedTransform, TransformKind
from tidemark.spark._cause import cause
from tidemark.spark.errors import (
    RowsKind,
    TransformAnnotatedOtherwise,
    TransformAnnotatedTwice,
    TransformColumnsVary,
    TransformNotFound,
    TransformNotImported,
    TransformRaised,
    TransformRaisedForNow,
    TransformReturnedOne,
    TransformReturnedOther,
    TransformReturnedOtherTargets,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def spelled(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows, with their columns as `schema` spells them."""
    for batch in batches:
        yield batch if batch.schema.equals(schema) else batch.cast(schema)


def refuse_other_columns(found: pa.Schema, expected: pa.Schema, what: str, target: str) -> None:
    """The transform has returned the columns that it returned at the start.

    Raises:
        SchemaMismatch: it has not; names both, and `what` was drained.
    """
    if found != expected:
        raise TransformColumnsVary(
            what=what, target=target, found=_named(found), at_start=_named(expected)
        )


def _named(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


@dataclass(frozen=True, slots=True)
class ArrowTransform:
    """The user's function. Pickled it is its name: the process that unpickles it imports it."""

    function: Callable[[pa.RecordBatch], Any]
    targets: tuple[str, ...] = (ONLY,)
    """The targets that it makes rows for: of several it returns a mapping, of one the batch."""

    def schemas(self, given: pa.Schema) -> dict[str, pa.Schema]:
        """The columns that it returns for each target, found with an empty batch of `given`.

        Raises:
            TransformFailed: it raises.
            JobFailed: memory ran out, or what it asked did not answer.
            InvalidSettings: it returns no record batch, or not one for each target.
        """
        empty = pa.RecordBatch.from_pylist([], schema=given)
        made = self._made(empty, with_empty=True)
        return {name: batch.schema for name, batch in made.items()}

    def rows(
        self, batches: Iterable[pa.RecordBatch], schemas: Mapping[str, pa.Schema], what: str
    ) -> Iterator[dict[str, pa.RecordBatch]]:
        """What it makes of each batch, by target; all of them are taken.

        Raises:
            TransformFailed, JobFailed, InvalidSettings: as `schemas`.
            SchemaMismatch: it returns other columns than `schemas`.
        """
        for batch in batches:
            made = self._made(batch)
            for name, part in made.items():
                refuse_other_columns(part.schema, schemas[name], what, name)
            yield made

    def _made(
        self, batch: pa.RecordBatch, *, with_empty: bool = False
    ) -> dict[str, pa.RecordBatch]:
        try:
            made = self.function(batch)
        except Exception as error:
            may_pass = isinstance(error, (OSError, MemoryError))
            kind = TransformRaisedForNow if may_pass else TransformRaised
            raise kind(cause=cause(error), with_empty=with_empty) from None
        parts = by_target(made, self.targets, "pyarrow.RecordBatch")
        for name, part in parts.items():
            if not isinstance(part, pa.RecordBatch):
                raise TransformReturnedOther(
                    returned=type(part).__name__, wanted="pyarrow.RecordBatch", target=name
                )
        return parts


FrameTransform = Callable[["DataFrame"], "DataFrame | Mapping[str, DataFrame]"]
"""Of several targets it returns a mapping, of one the DataFrame."""
Transform = FrameTransform | ArrowTransform


def transform_of(named: NamedTransform | None) -> Transform | None:
    """The transform of this name; None without one.

    Raises:
        InvalidSettings: there is no such module or function, or its kind is not clear.
        TransformFailed: its module raises when it is imported.
    """
    if named is None:
        return None
    module, _, name = named.function.partition(":")
    try:
        found: Any = getattr(_imported(module, named.function), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise TransformNotFound(
            transform=named.function, cause=str(error), project=str(named.project)
        ) from error
    if kind_of(found, named.function, named.kind) is TransformKind.arrow:
        return ArrowTransform(found, named.targets)
    transform: FrameTransform = found
    return transform


def _imported(module: str, transform: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise
        raise TransformNotImported(transform=transform, cause=cause(error)) from None
