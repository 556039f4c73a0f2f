"""Errors of operations that a person or a task starts beside a run's members.

A room has one such file, by which its errors are found. It is long, for each case has its
own fields and text.
"""

from datetime import datetime
from pathlib import Path

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
from tidemark.settings.fault_texts import did_you_mean


class RunNotClosed(
    RunNotDone,
    text="region {region}: run {run_id} {_state} in the ledger, whatever its tasks have said"
    " before. Clear its drain together with all tasks that follow",
):
    region: str
    run_id: str
    state: str | None
    """None: it never opened, or the ledger has forgotten it."""

    @property
    def _state(self) -> str:
        return f"is {self.state}" if self.state else "never opened, or is no longer retained,"


class GroupIsAtWork(
    Refused,
    text="region {region}: {fact}. Wait for it, or take over with --take-over, which fences it",
):
    region: str
    group: str
    holders: tuple[str, ...]

    @property
    def fact(self) -> str:
        """Who is at work."""
        return f"another run is at work in group {self.group}: {'; '.join(self.holders)}"


# A reset, a rewind, a mirror, a withholding.


class ResetOfClosedRun(
    Superseded,
    text="region {region}: run {run_id} is closed in the ledger, whatever became of its tasks:"
    " nothing was reset",
):
    region: str
    run_id: str


class ResetOfNoRun(Superseded, text="region {region}: run {run_id} never opened; nothing to reset"):
    region: str
    run_id: str


class ResetOvertaken(
    Superseded,
    text="{cause}. It came after this reset and has set Kafka's offsets: nothing is left to do",
):
    cause: str


class RewindIntoOtherTable(
    Refused,
    text="region {region} can't be rewound: it published to the table with oid {published_oid},"
    " but {table} is now another table, with oid {oid}. Nothing was changed. Put the old table"
    " back. If the database was restored from a dump, or the new table is meant, first start a run"
    " with --accept-changes",
):
    region: str
    table: str
    published_oid: int | None
    oid: int


class RewindTooFar(Refused):
    region: str
    moment: datetime
    oldest_seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.moment.isoformat()} lies before the oldest retained"
            f" checkpoint {self.oldest_seq}; rewind to a later time, or to the initial state"
        )


class RewindTimeUnknown(Refused):
    region: str
    moment: datetime
    faults: tuple[str, ...]
    told_seq: int
    told_from: datetime

    def __str__(self) -> str:
        return (
            f"region {self.region}: Kafka can no longer tell which records came at"
            f" {self.moment.isoformat()} or later: {'; '.join(self.faults)}. Nothing was changed."
            f" It can tell of times after {self.told_from.isoformat()}, when checkpoint"
            f" {self.told_seq} was published; for an earlier one name a checkpoint by its number"
            f" (tidemark checkpoints {self.region})"
        )


class RewindWouldLose(
    Refused,
    text="region {region} can't be rewound: {faults:clauses}. Not all of the rows removed would"
    " come again. Nothing was changed. Rewind to a newer checkpoint, or accept the loss with"
    " --accept-data-loss",
):
    region: str
    faults: tuple[str, ...]


class MirrorDuringRewind(
    Refused,
    text="region {region}: a rewind has moved Kafka's offsets back but not the ledger's; wait for"
    " it. If it died, the next run or `tidemark reset {region} --apply` sets Kafka's offsets again",
):
    region: str


class MirrorDuringWithholding(
    Refused,
    text="region {region}: a batch is being withheld from the output topic, and might be sent"
    " meanwhile; wait for it. If it died, withhold the batch again, or start the next run",
):
    region: str


class NothingToWithhold(
    Refused, text="region {region} has no output topic: there is no batch to withhold"
):
    region: str


# Replays.


class ReplayOfUpserts(
    Refused,
    text="region {region}: one of its targets is upserted, and a dead letter is older than the rows"
    " that came after it: a replay could put an old row in the place of a newer one. Produce the"
    " records again, or correct the rows by hand",
):
    region: str


class ReplayedRowRefused(
    TargetRefused,
    text="{cause}. A replay publishes all that it has chosen, or nothing. Correct the table, or"
    " choose without that record: by --partition, --reason, --since or --until",
):
    cause: str


# A region that is dropped.


class NotInLedger(Refused, text="region {region!r} is not in the ledger{_close} known: {_known}"):
    region: str
    known: tuple[str, ...]

    @property
    def _close(self) -> str:
        return did_you_mean(self.region, self.known) or ";"

    @property
    def _known(self) -> str:
        return ", ".join(self.known) or "none"


class StagingInUse(
    Refused,
    text="region {region}: staging of batches {batches:list} is still there: a run is at work, or"
    " a process that it has left behind. Nothing was changed. Try again; if a run died, `tidemark"
    " reset {region} --apply` ends it",
):
    region: str
    batches: tuple[int, ...]


# Offsets that are imported, dead letters that are exported.


class GroupWithoutOffsets(
    Refused,
    text="group {group} has no offsets of {topics:list}. Correct its name: a sink of Kafka Connect"
    " has the group connect-NAME. A tool that commits none there needs its offsets in a file",
):
    group: str
    topics: tuple[str, ...]


class ImportUnfit(
    Refused,
    text="region {region} can't begin at these offsets: {_first:clauses}. Nothing was written",
):
    region: str
    faults: tuple[str, ...]

    @property
    def _first(self) -> tuple[str, ...]:
        return self.faults[:10]


class ImportTooLate(
    Refused,
    text="region {region} has opened: the ledger says where it goes on, and no offsets are"
    " imported into it. `tidemark reset` goes back to a checkpoint of its own",
):
    region: str


class ImportPassedOver(
    Refused,
    text="region {region} begins at {start}, whatever its group has: set kafka.start: committed",
):
    region: str
    start: str


class ImportIntoUsedGroup(
    Refused,
    text="group {group} is in use: in it are {holders:clauses}. Stop them, or name another"
    " kafka.group",
):
    group: str
    holders: tuple[str, ...]


class ImportOverCommits(
    Refused,
    text="group {group} has other commits: {_committed}. Name another kafka.group, or delete them",
):
    group: str
    committed: Offsets

    @property
    def _committed(self) -> str:
        return offsets_text(self.committed)


class ImportReadsBackOthers(
    MirrorFailed,
    text="group {group}: Kafka has other offsets than were imported: {drift:clauses}. Stop whoever"
    " else commits in the group, then import again",
):
    group: str
    drift: tuple[str, ...]


class DeadLettersMiscounted(
    LedgerInconsistent,
    text="region {region}: {came} dead letters came and {counted} were counted; nothing was"
    " written. Export again",
):
    region: str
    came: int
    counted: int


class ExportFileUnwritable(InvalidSettings, text="{file} can't be written: {cause}"):
    file: Path
    cause: str | None
