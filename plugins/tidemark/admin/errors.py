"""What can be met by what a person or a task starts beside a run's members.

A room has one such file, by which its errors are found. It is long, for each case has its
own fields and text.
"""

from datetime import datetime
from pathlib import Path
from typing import Literal

from tidemark.errors import (
    InvalidSettings,
    LedgerInconsistent,
    MirrorFailed,
    Refused,
    RunNotDone,
    Superseded,
    TargetRefused,
)
from tidemark.model.offsets import Offsets, offsets_text
from tidemark.model.output import Topics
from tidemark.settings.fault_texts import did_you_mean


class RunNotClosed(RunNotDone):
    """The tasks of a run have succeeded, and the ledger does not call it closed."""

    region: str
    run_id: str
    state: str | None
    """None: it never opened."""

    def __str__(self) -> str:
        state = f"is {self.state}" if self.state else "never opened"
        return (
            f"region {self.region}: run {self.run_id} {state} in the ledger, whatever its tasks"
            " have said before. Clear its drain together with all tasks that follow"
        )


class GroupIsAtWork(Refused):
    """Members of another run live in the group."""

    region: str
    group: str
    holders: tuple[str, ...]

    @property
    def fact(self) -> str:
        """Who is at work."""
        return f"another run is at work in group {self.group}: {'; '.join(self.holders)}"

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.fact}. Wait for it, or take over with --take-over, which"
            " fences it"
        )


# A reset, a rewind, a mirror, a withholding.


class ResetOfNoRun(Superseded):
    """A run that never opened is to be reset."""

    region: str
    run_id: str

    def __str__(self) -> str:
        return f"region {self.region}: run {self.run_id} never opened; nothing to reset"


class ResetOvertaken(Superseded):
    """Another open or reset came after this reset, and has done its work."""

    cause: str

    def __str__(self) -> str:
        return (
            f"{self.cause}. It came after this reset and has set Kafka's offsets: nothing is left"
            " to do"
        )


class RewindIntoOtherTable(Refused):
    """The target's name now belongs to another table than the one that was published to."""

    region: str
    table: str
    published_oid: int | None
    oid: int

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be rewound: it published to the table with oid"
            f" {self.published_oid}, but {self.table} is now another table, with oid {self.oid}."
            " Nothing was changed. Put the old table back. If the database was restored from a"
            " dump, or the new table is meant, first start a run with --accept-changes"
        )


class RewindTooFar(Refused):
    """The time to rewind to lies before the oldest checkpoint that is kept."""

    region: str
    moment: datetime
    oldest_seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.moment.isoformat()} lies before the oldest retained"
            f" checkpoint {self.oldest_seq}; rewind to a later time, or to the initial state"
        )


class RewindWouldLose(Refused):
    """Kafka no longer has all records that a rewind would read again."""

    region: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be rewound: {'; '.join(self.faults)}. Not all of the rows"
            " removed would come again. Nothing was changed. Rewind to a newer checkpoint, or"
            " accept the loss with --accept-data-loss"
        )


class MirrorDuringRewind(Refused):
    """A rewind has moved Kafka's offsets back and is not finished in the ledger."""

    region: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: a rewind has moved Kafka's offsets back but not the ledger's;"
            f" wait for it. If it died, the next run or `tidemark reset {self.region} --apply`"
            " sets Kafka's offsets again"
        )


class MirrorDuringWithholding(Refused):
    """A withholding is not finished, and a mirror might send what it withholds."""

    region: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: a batch is being withheld from the output topic, and might be"
            " sent meanwhile; wait for it. If it died, withhold the batch again, or start the next"
            " run"
        )


class NothingToWithhold(Refused):
    """A batch is to be withheld, and the region has no output topic."""

    region: str

    def __str__(self) -> str:
        return f"region {self.region} has no output topic: there is no batch to withhold"


# Replays.


class ReplayOfUpserts(Refused):
    """A replay into a target that is upserted would put old values in the place of newer ones."""

    region: str
    of: Literal["dead letters", "batch"]

    def __str__(self) -> str:
        why = {
            "dead letters": "a dead letter is older than the rows that came after it: a replay"
            " could put an old row in the place of a newer one. Produce the records again, or"
            " correct the rows by hand",
            "batch": "later batches have changed the same keys: rewind to the checkpoint before"
            " the batch, and run again",
        }
        return f"region {self.region}: one of its targets is upserted, and {why[self.of]}"


class ReplayOfSent(Refused):
    """The rows of a batch were sent to an output topic, where they can't be replaced."""

    region: str
    output: Topics

    def __str__(self) -> str:
        return (
            f"region {self.region} sends {self.output}, and what was sent can't be replaced: rewind"
            " to the checkpoint before the batch, and run again"
        )


class ReplayLacksRecords(Refused):
    """Kafka no longer holds the records of a batch."""

    region: str
    seq: int
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}: batch {self.seq} can't be replayed: {'; '.join(self.faults)}."
            " Its rows stay as they are"
        )


class ReplayOfCompacted(Refused):
    """Fewer records came than the batch was made of."""

    region: str
    seq: int
    records: int
    found: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: batch {self.seq} can't be replayed: {self.records} records made"
            f" it, and Kafka now gives {self.found}: some were compacted away. Its rows stay as"
            " they are"
        )


class ReplayedRowRefused(TargetRefused):
    """The target refuses a row that a dead letter became."""

    cause: str

    def __str__(self) -> str:
        return (
            f"{self.cause}. A replay publishes all that it has chosen, or nothing. Correct the"
            " table, or choose without that record: by --partition, --reason, --since or --until"
        )


# A region's name, its group, its tables.


class NotInLedger(Refused):
    """The ledger has no region of the name."""

    region: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region!r} is not in the ledger"
            f"{did_you_mean(self.region, self.known) or ';'}"
            f" known: {', '.join(self.known) or 'none'}"
        )


class NewNameMalformed(InvalidSettings):
    """What a region is to be called can't be a region's name."""

    name: str

    def __str__(self) -> str:
        return (
            f"{self.name!r} is not a region's name: 1 to 40 small letters, digits and _, a letter"
            " first"
        )


class NewNameUnfit(InvalidSettings):
    """With a new name a region's tables would have names that Postgres does not take."""

    region: str
    cause: str

    def __str__(self) -> str:
        return f"region {self.region}: {self.cause}"


class StagingInUse(Refused):
    """Staging tables that bear the region's name are still there."""

    region: str
    batches: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}: staging of batches {', '.join(map(str, self.batches))} is still"
            " there: a run is at work, or a process that it has left behind. Nothing was changed."
            f" Try again; if a run died, `tidemark reset {self.region} --apply` ends it"
        )


class NothingToMove(Refused):
    """The region has the group and the tables of its file."""

    region: str
    group: str
    tables: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region} has group {self.group} and target {', '.join(self.tables)}, as"
            " the pipeline file says: there is nothing to move"
        )


class MoveFromSent(Refused):
    """A region with an output topic is to have another group."""

    region: str
    group: str

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be moved to group {self.group}: it has an output topic,"
            " and the offsets of its present group record what was sent there. Keep the group"
        )


class MoveIntoUsedGroup(Refused):
    """Somebody is in the group that a region is to be moved to."""

    region: str
    group: str
    holders: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be moved to group {self.group}: in it are"
            f" {'; '.join(self.holders)}. Stop them, or name another group"
        )


class MoveIntoCommits(Refused):
    """The group that a region is to be moved to has the commits of somebody else."""

    region: str
    group: str

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be moved to group {self.group}: it has commits that no"
            " region has written. Name a group without commits, or delete them"
        )


# Offsets that are imported, dead letters that are exported.


class ImportUnfit(Refused):
    """Exported offsets do not mean records of these topics."""

    region: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region} can't begin at these offsets: {'; '.join(self.faults[:10])}."
            " Nothing was written"
        )


class ImportTooLate(Refused):
    """Offsets are to be imported into a region that has opened."""

    region: str

    def __str__(self) -> str:
        return (
            f"region {self.region} has opened: the ledger says where it goes on, and no offsets are"
            " imported into it. `tidemark reset` goes back to a checkpoint of its own"
        )


class ImportPassedOver(Refused):
    """A region would begin elsewhere than at the offsets that are imported."""

    region: str
    start: str

    def __str__(self) -> str:
        return (
            f"region {self.region} begins at {self.start}, whatever its group has: set kafka.start:"
            " committed"
        )


class ImportIntoUsedGroup(Refused):
    """Somebody is in the group that is to have the offsets."""

    group: str
    holders: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"group {self.group} is in use: in it are {'; '.join(self.holders)}. Stop them, or name"
            " another kafka.group"
        )


class ImportOverCommits(Refused):
    """The group that is to have the offsets has others."""

    group: str
    committed: Offsets

    def __str__(self) -> str:
        return (
            f"group {self.group} has other commits: {offsets_text(self.committed)}. Name another"
            " kafka.group, or delete them"
        )


class ImportReadsBackOthers(MirrorFailed):
    """Kafka does not read back the offsets that were imported."""

    group: str
    drift: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"group {self.group}: Kafka has other offsets than were imported:"
            f" {'; '.join(self.drift)}. Stop whoever else commits in the group, then import again"
        )


class DeadLettersMiscounted(LedgerInconsistent):
    """Not as many dead letters came as the same snapshot counted."""

    region: str
    came: int
    counted: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.came} dead letters came and {self.counted} were counted;"
            " nothing was written. Export again"
        )


class ExportFileExists(InvalidSettings):
    """A file has the name that an export is to have."""

    file: Path

    def __str__(self) -> str:
        return f"{self.file} exists and is not overwritten; name another file"


class ExportFileUnwritable(InvalidSettings):
    """The operating system does not let an export be written."""

    file: Path
    cause: str | None

    def __str__(self) -> str:
        return f"{self.file} can't be written: {self.cause}"
