"""The writer: transformed rows are staged; a plain function of (batches, attempt)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from tidemark import failpoints
from tidemark.model.batch import Attempt, Staging
from tidemark.spark._postgres import postgres_errors, task_session
from tidemark.staging.copy import copy_rows


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What a writer needs; it travels pickled to the tasks, secrets and all."""

    postgres: Mapping[str, Any] = field(repr=False)
    """Where rows are staged."""
    staging: Staging
    schemas: Mapping[str, pa.Schema] = field(repr=False)
    """The columns of each target's rows, in order."""
    member: int
    leaves_out: bool = False
    """Whether a row that Postgres can't store makes a dead letter; see `copy_rows`."""


Parts = Mapping[str, pa.RecordBatch]
"""Rows by the name of their target."""


def stage(spec: WriteSpec, batches: Iterable[Parts], attempt: int) -> Attempt:
    """All rows of `batches` lie in staging under (member, attempt), committed; none if it fails.

    Those of all targets by one COMMIT. One batch is in memory at a time, with `leaves_out` some
    more. Without any row Postgres is not asked.

    Raises:
        Unreachable: Postgres does not answer.
        StagingLost: the batch was discarded and its tables are gone.
        TargetRefused: Postgres can't hold a value; names its record.
    """
    failpoints.hit("stage.before")
    filled = filter(None, map(_filled, batches))
    first = next(filled, None)
    rows = {} if first is None else _copy(spec, chain([first], filled), attempt)
    failpoints.hit("stage.after")
    return Attempt(spec.member, attempt, rows)


def _filled(parts: Parts) -> Parts:
    return {name: batch for name, batch in parts.items() if batch.num_rows}


def _copy(spec: WriteSpec, batches: Iterator[Parts], attempt: int) -> dict[str, int]:
    with postgres_errors(), task_session(spec.postgres) as connection:
        return copy_rows(
            connection,
            spec.staging,
            _watched(batches),
            spec.schemas,
            member=spec.member,
            attempt=attempt,
            leaves_out=spec.leaves_out,
        )


def _watched(batches: Iterator[Parts]) -> Iterator[Parts]:
    for number, batch in enumerate(batches):
        yield batch
        if number == 0:
            failpoints.hit("stage.copy")
    failpoints.hit("stage.commit")
