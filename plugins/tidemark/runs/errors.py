"""What a run can meet: at its open, in its members, in a schema of its columns."""

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


class ConnectionUnreachable(Unreachable):
    """A server did not answer; its connection is named as well."""

    place: str
    cause: str

    def __str__(self) -> str:
        return f"{self.cause} [{self.place}]"


class NewRegionHasCommits(Refused):
    """The group of a region that never opened has commits, which its start would pass over."""

    region: str
    group: str
    committed: Offsets
    start: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: group {self.group} already has commits"
            f" ({offsets_text(self.committed)}) and the region is new with start position"
            f" {self.start}. Use start: committed to go on from them, another kafka.group, or"
            " --adopt-group to replace them"
        )


class NewRegionLacksCommits(Refused):
    """A region that never opened starts at its group's commits, and there are none."""

    region: str
    group: str
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}: start position is committed, but group {self.group} has no"
            f" commit for {', '.join(map(str, self.partitions))}. Commit an offset there, or set"
            " kafka.start to beginning, end or a time"
        )


class NewRegionCommitsTooFar(Refused):
    """A region that never opened starts at its group's commits, and logs end before them."""

    region: str
    group: str
    ends: Offsets
    """Up to where those logs can be read: an open transaction ends them."""
    committed: Offsets
    """Their commits."""

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


class RefusedWithoutSpent(Refused):
    """An open is refused, and overrides that an earlier open of its run had were left out."""

    cause: str
    spent: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.cause}. {'; '.join(self.spent)}"


class DataLostWithoutSpent(DataLost):
    """An open lacks data, and overrides that an earlier open of its run had were left out."""

    cause: str
    spent: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.cause}. {'; '.join(self.spent)}"


class ColumnsNotKept(Refused):
    """`schema: registry` is newer than the region's newest run, which kept no columns for it."""

    region: str
    section: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.section}.schema is registry, and the newest run kept no"
            " columns for it. Start a run: it takes them from the registry"
        )


class FieldsWithoutType(InvalidSettings):
    """The newest schema has fields that no type of ours holds whole."""

    section: str
    schema: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.section}.schema: registry: {self.schema} has {', '.join(self.names)}, which no"
            " type holds whole. Declare the fields that you want, with their types"
        )


class RunNotOpen(RunNotDone):
    """A member was started for a run that never opened."""

    region: str
    run_id: str

    def __str__(self) -> str:
        return f"region {self.region}: run {self.run_id} is not open; open it first"


class DriverHasNoRun(InvalidSettings):
    """A driver's environment does not name its run."""

    variable: str

    def __str__(self) -> str:
        return f"{self.variable} is not set: set it to the id of the open run"


class ExecutorsLoginMissing(InvalidSettings):
    """The connection of Spark's tasks does not say as whom they log in."""

    conn_id: str

    def __str__(self) -> str:
        return (
            f"connection {self.conn_id!r} (executors.warehouse) has no login: the driver grants"
            " INSERT on its staging tables to that role"
        )


class TasksReadOtherTopics(Refused):
    """The Kafka that Spark's tasks read has other topics of the same names."""

    region: str
    conn_id: str
    """Of the tasks' Kafka."""
    own: str
    """Of the driver's."""
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}: connection {self.conn_id!r} (executors.kafka) leads to another"
            f" cluster than {self.own!r}: {', '.join(self.topics)} has another topic id there. Let"
            f" it name the brokers of {self.own!r}"
        )


class DriverHasNoSlot(InvalidSettings):
    """A driver's environment does not say which of the run's members it is."""

    variable: str
    value: str

    def __str__(self) -> str:
        return f"{self.variable} is {self.value!r}: set it to the member's number, 1 or more"


class MemberFenced(Fenced):
    """The epoch of a member at work has passed."""

    region: str
    epoch: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: epoch {self.epoch} has passed, another run or a reset took"
            " over; the job was cancelled, and nothing of it became visible"
        )


class RunStalled(NoProgress):
    """Spans of a run wait, and nothing was planned or claimed for too long."""

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
        return (
            f"region {self.region}, epoch {self.epoch}, {what} for {self.seconds:.0f} s. Waiting:"
            f" {spans_in_ranges(self.spans)}. In group {self.group} they are held by:"
            f" {'; '.join(map(str, self.holders)) or 'nobody'}. Stop consumers of this group that"
            " are no members of the region, or give the region a group of its own. If a member of"
            " the run holds them, look at its job; if it is only slow, raise no_progress_seconds"
        )
