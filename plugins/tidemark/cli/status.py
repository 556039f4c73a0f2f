"""`tidemark status`: where regions stand in the ledger and in Kafka."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.errors import in_our_words, tell
from tidemark.cli.output import Format, Output, Verbose, print_json, print_line, print_table
from tidemark.cli.progress import spinning
from tidemark.cli.project import DAGS, PipelinesDir, connections_of, find_pipeline, pipelines_in
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.pipeline import Pipeline
    from tidemark.region import Region


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition: offsets are the next to read; None where it is not known."""

    topic: str
    partition: int
    ledger: int
    kafka: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets that the ledger has not passed."""
        return None if self.end is None else self.end - self.ledger

    @property
    def drift(self) -> int | None:
        """Kafka's group offset less the ledger's: 0 at rest, below while a mirror is due."""
        return None if self.kafka is None else self.kafka - self.ledger


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """Where a region stands."""

    region: str
    state: str
    """never opened, open, closed, failed, superseded, reset."""
    epoch: int | None = None
    head_seq: int | None = None
    unpublished_seq: int | None = None
    run_id: str | None = None
    reason: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    problem: str | None = None
    """What could not be asked."""

    @property
    def lag(self) -> int | None:
        """Offsets over all partitions that the ledger has not passed."""
        lags = [partition.lag for partition in self.partitions]
        return None if None in lags or not lags else sum(lag for lag in lags if lag is not None)

    @property
    def drifting(self) -> int:
        """Partitions whose offset in Kafka is not the ledger's."""
        return sum(partition.drift != 0 for partition in self.partitions)


def status(
    region: Annotated[
        str | None, typer.Argument(metavar="[REGION]", help="A region's name or pipeline file.")
    ] = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Show where a region stands, or, without REGION, one line for each.

    For each partition: the ledger's offset (the truth), Kafka's group offset (its mirror), the
    end of the log, lag = end - ledger, drift = Kafka - ledger. Offsets are the next to read.
    Exits with 1 if something could not be asked.

      tidemark status
      tidemark status flights
      tidemark status flights -o json | jq .lag
    """
    faults: list[str] = []
    with spinning("asking the ledger and Kafka"):
        wanted = (
            [find_pipeline(region, pipelines)] if region else [*pipelines_in(pipelines, faults)]
        )
        found = [status_of(pipeline) for pipeline in wanted]
    for fault in faults:
        tell(f"not a pipeline: {fault}", "yellow")
    if output is Output.json:
        shapes = [_shape(one) for one in found]
        print_json(shapes[0] if region else shapes)
    elif region:
        _print_region(found[0])
    else:
        _print_regions(found)
    for one in found:
        if one.problem:
            tell(f"{one.region}: {one.problem}", "red")
    if any(one.problem for one in found):
        raise typer.Exit(1)


def status_of(pipeline: "Pipeline") -> RegionStatus:
    """Where the region stands, as far as it can be asked."""
    from tidemark.region import region_of

    try:
        with region_of(pipeline, connections_of(pipeline)) as region:
            return _with_kafka(region, _in_ledger(region))
    except Exception as error:
        problem = error if isinstance(error, TidemarkError) else in_our_words(error)
        if problem is None:
            raise
        return RegionStatus(pipeline.region, "unknown", problem=f"{problem.code}: {problem}")


def _in_ledger(region: "Region") -> RegionStatus:
    from tidemark.ledger.looks import Looks

    ledger = region.ledger
    state = ledger.region_state(region.name) if Looks(ledger.engine).is_there() else None
    if state is None:
        return RegionStatus(region.name, "never opened")
    run = ledger.run_at(region.name, state.epoch)
    return RegionStatus(
        region.name,
        run.state if run else "reset",
        state.epoch,
        state.head_seq,
        ledger.unpublished_seq(region.name),
        run.run_id if run else None,
        run.reason if run else None,
        tuple(
            PartitionStatus(*where, offset, None, None)
            for where, offset in ledger.merged_checkpoint(region.name).offsets.items()
        ),
    )


def _with_kafka(region: "Region", found: RegionStatus) -> RegionStatus:
    from tidemark.offsets import TopicPartition

    try:
        ends = region.broker.facts(region.pipeline.kafka.topics).ends
        places = [TopicPartition(one.topic, one.partition) for one in found.partitions]
        committed = region.group.committed(places) if places else {}
    except TidemarkError as error:
        return replace(found, problem=f"{error.code}: {error}")
    asked = zip(found.partitions, places, strict=True)
    both = (replace(one, kafka=committed.get(at), end=ends.get(at)) for one, at in asked)
    return replace(found, partitions=tuple(both))


def _shape(one: RegionStatus) -> dict[str, object]:
    from tidemark.cli.output import plain

    partitions = [
        plain(partition) | {"lag": partition.lag, "drift": partition.drift}
        for partition in one.partitions
    ]
    derived = {"lag": one.lag, "drifting": one.drifting, "partitions": partitions}
    shape: dict[str, object] = plain(one) | derived
    return shape


def _print_regions(found: list[RegionStatus]) -> None:
    columns = ("region", "state", "epoch", "head", "lag", "drifting", "run")
    print_table(
        columns,
        [(r.region, r.state, r.epoch, r.head_seq, r.lag, r.drifting, r.run_id) for r in found],
    )


def _print_region(one: RegionStatus) -> None:
    facts = {
        "region": one.region,
        "state": one.state,
        "epoch": one.epoch,
        "head": one.head_seq,
        "unpublished": one.unpublished_seq,
        "run": one.run_id,
        "reason": one.reason,
        "lag": one.lag,
    }
    for name, value in facts.items():
        if value is not None:
            print_line(f"{name:12}{value}")
    if one.partitions:
        print_line("")
        print_table(
            ("partition", "ledger", "Kafka", "end", "lag", "drift"),
            [
                (f"{p.topic}[{p.partition}]", p.ledger, p.kafka, p.end, p.lag, p.drift)
                for p in one.partitions
            ],
        )
