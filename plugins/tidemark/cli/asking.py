"""Asking regions where they stand: what can't be asked is said, and the rest shown."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tidemark.check.errors import as_tidemark_error
from tidemark.cli.errors import error_line
from tidemark.cli.project import connections_of
from tidemark.errors import TidemarkError
from tidemark.runs.region import region_of
from tidemark.views.status import (
    RegionStatus,
    counted,
    in_ledger,
    output_status,
    with_group,
    with_kafka,
)

if TYPE_CHECKING:
    from tidemark.runs.region import Region
    from tidemark.settings.pipeline import Pipeline

Seen = TypeVar("Seen")

PATIENCE = 3.0
"""Seconds that a look which is repeated waits for a silent Kafka: Prometheus gives up after ten."""


def status_of(
    pipeline: "Pipeline", *, count: bool = False, patience: float | None = None
) -> RegionStatus:
    """Where the region stands, as far as it can be asked; `patience` is that of `with_kafka`."""
    return asked(
        pipeline,
        lambda region: status_in(region, patience, count=count),
        lambda problem: unknown(pipeline, problem),
    )


def asked(
    pipeline: "Pipeline", look: "Callable[[Region], Seen]", failed: "Callable[[str], Seen]"
) -> "Seen":
    """What is seen of the region; or what `failed` makes of the reason why it can't be asked."""
    pipeline = pipeline.for_readers
    try:
        with region_of(pipeline, connections_of(pipeline)) as region:
            return look(region)
    except Exception as error:
        problem = error if isinstance(error, TidemarkError) else as_tidemark_error(error)
        if problem is None:
            raise
        return failed(error_line(problem))


def unknown(pipeline: "Pipeline", problem: str) -> RegionStatus:
    """The status of a region that can't be asked."""
    return RegionStatus(pipeline.region, "unknown", problem=problem)


def status_in(
    region: "Region", patience: float | None = None, *, count: bool = False
) -> RegionStatus:
    """With the table counted and Kafka asked; the ledger's part stays if Kafka is silent.

    `patience` is that of `with_kafka`.
    """
    found = in_ledger(region)
    if count:
        found = replace(found, targets=tuple(counted(region, one) for one in found.targets))
    try:
        partitions = tuple(with_kafka(region, found.partitions, patience))
        found = replace(found, partitions=partitions, output=output_status(region, partitions))
        return with_group(region, found)
    except TidemarkError as error:
        return replace(found, problem=error_line(error))
