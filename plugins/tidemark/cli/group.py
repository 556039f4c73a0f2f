"""`tidemark group`: the health of a region's consumer group."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidemark.cli.asking import PATIENCE
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    print_json,
    print_line,
    print_table,
    spinning,
)
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.kafka.description import DEAD
from tidemark.model.plain import plain
from tidemark.runs.region import region_of
from tidemark.views.group_health import FOREIGN, health_of
from tidemark.views.status import ENDED, brief

if TYPE_CHECKING:
    from tidemark.views.group_health import GroupHealth
    from tidemark.views.status import MemberHealth


def group(
    region: RegionName,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Show the members of a region's consumer group, their partitions, and the slowest member.

    Kafka gives the group's state and the partitions of each consumer. The ledger gives the state of
    each member of the current epoch, its last and its longest drain, and the time since its last
    change. A consumer that is FOREIGN is no member of the region: nobody drains its partitions, and
    the run fails and names it. Stop it, or give the region a kafka.group of its own. EARLIER is a
    process of an earlier epoch: it is fenced and leaves by itself. STATIC is a member that bears
    one of the region's static names.

    Each partition has two lags, by Kafka's group offset and by the ledger's, and their difference
    (drift, repaired by `tidemark mirror`). While a batch has unclaimed spans, the command names the
    member that holds them and has made no progress for the longest time.

      tidemark group flights
      tidemark group flights -o json | jq .held_up
    """
    pipeline = find_pipeline(region, pipelines).for_readers
    with (
        spinning("reading the ledger and Kafka"),
        region_of(pipeline, connections_of(pipeline)) as the_region,
    ):
        the_region.broker.ping(PATIENCE)
        found = health_of(the_region)
    if output is ResultFormat.json:
        print_json(_shape(found))
    else:
        _print(found)


def _shape(found: "GroupHealth") -> dict[str, Any]:
    partitions = [
        plain(one) | {"lag": one.lag, "kafka_lag": one.kafka_lag, "drift": one.drift}
        for one in found.partitions
    ]
    derived = {"lag": found.lag, "kafka_lag": found.kafka_lag, "drifting": found.drifting}
    shape: dict[str, Any] = plain(found) | derived | {"partitions": partitions}
    return shape


def _print(found: "GroupHealth") -> None:
    for name, value in _facts(found):
        if value not in (None, ""):
            print_line(f"{name:12}{value}")
    if found.members:
        print_line("")
        columns = ("member", "state", "partitions", "drain ms", "longest", "seen", "host")
        print_table(columns, [_member(one) for one in found.members])
    if found.partitions:
        print_line("")
        print_table(
            ("partition", "Kafka", "lag by Kafka", "ledger", "lag by ledger", "drift"),
            [
                (str(p.topic_partition), p.kafka, p.kafka_lag, p.ledger, p.lag, p.drift)
                for p in found.partitions
            ],
        )
    print_line("")
    if found.foreign:
        print_line(f"{', '.join(found.foreign)}: {FOREIGN}", style="red")
    print_line(found.waits)


def _facts(found: "GroupHealth") -> Iterator[tuple[str, Any]]:
    yield "region", found.region
    yield "group", f"{found.group}, {_state(found)}"
    yield "protocol", ", ".join(filter(None, (found.protocol, found.assignor)))
    yield "coordinator", found.coordinator
    yield "epoch", found.epoch
    yield "run", f"{found.run_id}, {found.run_state}" if found.run_id else found.run_state
    yield "unpublished", found.unpublished_seq


def _state(found: "GroupHealth") -> str:
    if found.state == DEAD.state:
        return "dead: Kafka knows no such group"
    return found.state.replace("_", " ")


def _member(one: "MemberHealth") -> tuple[object, ...]:
    known = f"{one.number} {one.name}"
    other = f"{one.kind.upper()} {one.instance_id or one.client_id}"
    name = known if one.kind == "member" else other
    seen = None if one.seen_age_s is None else f"{one.seen_age_s} s ago"
    is_missing = not one.in_group and one.state not in ENDED
    state = f"{one.state}, not in the group" if is_missing else one.state
    host = (one.host or "").lstrip("/")
    return name, state, brief(one.partitions), one.drain_ms, one.drain_ms_max, seen, host
