"""Errors of a run: at its open, in its members, in a schema of its columns."""

from tidemark.errors import (
    DataLost,
    Fenced,
    InvalidSettings,
    NoProgress,
    Refused,
    RunNotDone,
    Unreachable,
)
from tidemark.kafka.description import Holder
from tidemark.model.offsets import Offsets, Span, TopicPartition, offsets_text, spans_in_ranges


class ConnectionUnreachable(Unreachable, text="{cause} [{place}]"):
    """A server did not answer; its connection is named as well."""

    place: str
    cause: str


class NewRegionHasCommits(
    Refused,
    text="region {region}: group {group} already has commits ({_committed}) and the region is new"
    " with start position {start}. Use start: committed to go on from them, another kafka.group, or"
    " --adopt-group to replace them",
):
    region: str
    group: str
    committed: Offsets
    start: str

    @property
    def _committed(self) -> str:
        return offsets_text(self.committed)


class RegionInOtherLedger(
    Refused,
    text="region {region}: the ledger of {conn_id} does not know it, but the offsets of group"
    " {group} were written under its epoch {epoch}, checkpoint {seq}. {conn_id} leads to another"
    " database than the runs use, or the ledger was lost: `tidemark check` compares the"
    " connections",
):
    region: str
    group: str
    conn_id: str
    epoch: int
    """The newest that the offsets name."""
    seq: int


class NewRegionLacksCommits(
    Refused,
    text="region {region}: start position is committed, but group {group} has no commit for"
    " {partitions:list}. Commit an offset there, or set kafka.start to beginning, end or a time",
):
    region: str
    group: str
    partitions: tuple[TopicPartition, ...]


class NewRegionCommitsTooFar(Refused):
    """A region that never opened starts at its group's commits, and logs end before them."""

    region: str
    group: str
    ends: Offsets
    """Up to where those logs can be read: an open transaction ends them."""
    committed: Offsets

    def __str__(self) -> str:
        where = ", ".join(
            f"{at} ends at {end}, its commit is {self.committed[at]}"
            for at, end in sorted(self.ends.items())
        )
        return (
            f"region {self.region}: start position is committed, but group {self.group} has commits"
            f" beyond the ends of these logs: {where}. If a transaction is open there, run again"
            " when it has ended. Else they are of a topic that was deleted and created again, or of"
            " another cluster: set the group's offsets to where the region is to begin, or give it"
            " another group or start position"
        )


class AnotherRunAtWork(Refused):
    """Another run of the region is at work: members of it live, or its tasks may yet come."""

    region: str
    run_id: str
    quiet_s: int
    """Seconds since the ledger heard of it last."""
    holders: tuple[str, ...]

    def __str__(self) -> str:
        signs = [*self.holders, f"the ledger heard of it {self.quiet_s} s ago"]
        return (
            f"region {self.region}: run {self.run_id} is at work: {'; '.join(signs)}. Wait for it,"
            " or end it. To fence it now, take over: Take over in the DAG's form, or --take-over"
        )


class RefusedWithoutSpent(Refused, text="{cause}. {spent:clauses}"):
    """An open is refused, and overrides that an earlier open of its run had were left out."""

    cause: str
    spent: tuple[str, ...]


class DataLostWithoutSpent(DataLost, text="{cause}. {spent:clauses}"):
    """An open lacks data, and overrides that an earlier open of its run had were left out."""

    cause: str
    spent: tuple[str, ...]


class ColumnsNotKept(
    Refused,
    text="region {region}: {section}.schema is registry, and the newest run kept no columns for"
    " it. Start a run: it takes them from the registry",
):
    region: str
    section: str


class FieldsWithoutType(
    InvalidSettings,
    text="{section}.schema: registry: {schema} has {names:list}, which no type holds whole."
    " Declare the fields that you want, with their types",
):
    section: str
    schema: str
    names: tuple[str, ...]


class RunNotOpen(RunNotDone, text="region {region}: run {run_id} is not open; open it first"):
    region: str
    run_id: str


class TasksReadOtherTopics(
    Refused,
    text="region {region}: connection {conn_id!r} (executors.kafka) leads to another cluster than"
    " {own!r}: {topics:list} has another topic id there. Let it name the brokers of {own!r}",
):
    region: str
    conn_id: str
    """Of the tasks' Kafka."""
    own: str
    """Of the driver's."""
    topics: tuple[str, ...]


class DriverEnvironmentUnfit(InvalidSettings, text="{variable} is {value!r}: set it to {wanted}"):
    variable: str
    value: str
    wanted: str


class MemberFenced(
    Fenced,
    text="region {region}: epoch {epoch} has passed, another run or a reset took over; the job was"
    " cancelled, and nothing of it became visible",
):
    region: str
    epoch: int


class RunStalled(NoProgress):
    region: str
    epoch: int
    seq: int | None
    """The batch of which no span was claimed; None: no batch was planned."""
    seconds: float
    spans: tuple[Span, ...]
    group: str
    holders: tuple[Holder, ...]
    """Who holds the partitions of the spans, and is in the way."""

    def __str__(self) -> str:
        is_planned = self.seq is not None
        what = f"batch {self.seq}: no span was claimed" if is_planned else "no batch was planned"
        holders = "; ".join(map(str, self.holders)) or "nobody holds these partitions"
        return (
            f"region {self.region}, epoch {self.epoch}, {what} for {self.seconds:.0f} s. Unclaimed:"
            f" {spans_in_ranges(self.spans)}. In group {self.group}, {holders}. Stop consumers of"
            " this group that are no members of the region, or give the region a group of its own."
            " If a member of the run holds them, look at its job; if it is only slow, raise"
            " no_progress_seconds"
        )
