"""Asking regions where they stand: what can't be asked is said, and the rest shown."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tidemark.check.errors import as_tidemark_error
from tidemark.cli.errors import error_line
from tidemark.cli.project import connections_of
from tidemark.errors import TidemarkError, Unreachable
from tidemark.runs.region import region_of
from tidemark.views.status import (
    RegionStatus,
    counted,
    in_ledger,
    output_status,
    refuse_other_ledger,
    with_group,
    with_kafka,
)

if TYPE_CHECKING:
    from tidemark.runs.region import Region
    from tidemark.settings.pipeline import Pipeline

Seen = TypeVar("Seen")

PATIENCE = 2.0
"""Seconds that a look waits for a sign of life from Kafka: a person wants to know it at once, and
Prometheus gives up after ten, over all regions."""


class Brokers:
    """Each Kafka connection is asked for a sign of life until it is silent once.

    So a Kafka that is frozen costs one look PATIENCE once, and not once for each of its regions.
    """

    def __init__(self) -> None:
        self._silent: dict[str, Unreachable] = {}

    def refuse_silent(self, region: "Region") -> None:
        """Ask the region's.

        Raises:
            Unreachable: it is silent, or was so in this look.
        """
        conn_id = region.pipeline.kafka.connection
        if conn_id in self._silent:
            raise self._silent[conn_id]
        try:
            region.broker.ping(PATIENCE)
        except Unreachable as error:
            self._silent[conn_id] = error
            raise


def statuses_of(pipelines: "Iterable[Pipeline]", *, count: bool = False) -> list[RegionStatus]:
    """Where the regions stand in one look, as far as they can be asked."""
    brokers = Brokers()

    def look(region: "Region") -> RegionStatus:
        return status_in(region, brokers, count=count)

    return [asked(one, look, partial(unknown, one)) for one in pipelines]


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


def status_in(region: "Region", brokers: Brokers, *, count: bool = False) -> RegionStatus:
    """With the table counted and Kafka asked; the ledger's part stays if Kafka is silent."""
    found = in_ledger(region)
    if count:
        found = replace(found, targets=tuple(counted(region, one) for one in found.targets))
    try:
        brokers.refuse_silent(region)
        if found.epoch is None:
            refuse_other_ledger(region)
        partitions = tuple(with_kafka(region, found.partitions))
        found = replace(found, partitions=partitions, output=output_status(region, partitions))
        return with_group(region, found)
    except TidemarkError as error:
        return replace(found, problem=error_line(error))
