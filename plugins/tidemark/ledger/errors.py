"""What the ledger can meet: a region, an epoch or a batch that is not as somebody thought."""

from typing import Literal

from tidemark.errors import Fenced, Refused, StagingLost, Superseded, TargetRefused
from tidemark.model.state import Owner


class LedgerIsNewer(Refused):
    """A newer Tidemark has migrated the ledger."""

    revision: str
    newest: str
    """That this version knows."""

    def __str__(self) -> str:
        return (
            f"the ledger is at revision {self.revision}, made by a newer version of Tidemark; this"
            f" one knows revisions up to {self.newest}: upgrade Tidemark"
        )


class RegionNeverOpened(Refused):
    """The ledger does not know the region."""

    region: str

    def __str__(self) -> str:
        return f"region {self.region} is not in the ledger yet: start its first run"


class RegionNameTaken(Refused):
    """The ledger has a region of the new name."""

    region: str

    def __str__(self) -> str:
        return f"region {self.region} is in the ledger already: choose another name"


class RegionNotAtRest(Refused):
    """A run, a reset or a rewind of the region is at work, or died there."""

    region: str

    def __str__(self) -> str:
        return (
            f"region {self.region} is not at rest: a run or a reset is at work, or died there."
            " Nothing was changed. Wait for it, or end it:"
            f" `tidemark reset {self.region} --apply`"
        )


class RegionNotReadBack(Refused):
    """Nobody has read in Kafka that the group stands where the ledger does, under its epoch."""

    region: str
    group: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: its newest run failed, or its epoch was taken for something"
            f" else: the offsets of group {self.group} in Kafka may not be the ledger's, and a new"
            " region would go on from them. Nothing was changed. Write them first:"
            f" `tidemark reset {self.region} --apply`"
        )


class RegionChangedMeanwhile(Superseded):
    """Another epoch has begun since the region was looked at."""

    region: str
    epoch: int
    found: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: epoch {self.epoch} has passed, the region is at {self.found}: a"
            " run or a reset began meanwhile. Nothing was changed"
        )


class EpochHasPassed(Fenced):
    """The region has another epoch than the process that writes."""

    region: str
    epoch: int
    found: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: epoch {self.epoch} has passed, the region is at {self.found}:"
            " another run or a reset took over, and this process can no longer write"
        )


class RunIsPruned(Fenced):
    """The run is so old that the ledger no longer retains it."""

    region: str
    epoch: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: the run of epoch {self.epoch} has passed and was pruned from"
            " the ledger"
        )


class CheckpointNotRestored(Fenced):
    """A checkpoint can't become the head: the region has another epoch."""

    region: str
    seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: checkpoint {self.seq} can't become the head: another run or"
            " reset has taken the epoch"
        )


class RegionHasOwners(Refused):
    """The region's group or one of its tables is another region's."""

    region: str
    owners: tuple[Owner, ...]

    def __str__(self) -> str:
        return (
            f"{'; '.join(map(str, self.owners))}: a group and a table belong to one region. Give"
            f" region {self.region} its own (kafka.group, target.table); if it was renamed, write"
            " the new name into the pipeline file (`tidemark region list`)"
        )


class RegionKeepsGroup(Refused):
    """The region has another consumer group than the pipeline says."""

    region: str
    group: str
    asked: str

    def __str__(self) -> str:
        return (
            f"region {self.region} has consumer group {self.group!r}, the pipeline says"
            f" {self.asked!r}; a region keeps its group, unless `tidemark region move` carries it"
            " over"
        )


class RegionKeepsTargets(Refused):
    """The region has targets of other names than the pipeline says."""

    region: str
    targets: tuple[str, ...]
    asked: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region} has {_listed(self.targets)}, the pipeline file says"
            f" {_listed(self.asked)}. Restore the names in the file, or use a new region"
        )


def _listed(names: tuple[str, ...]) -> str:
    return f"the targets {', '.join(names)}" if any(names) else "one target without a name"


class TableMovesWithItsRows(Refused):
    """The table that a region is to move to is not the one that it has published to."""

    region: str
    table: str
    oid: int
    asked: str
    asked_oid: int | None
    """None if there is no such table."""

    def __str__(self) -> str:
        now = "is not there" if self.asked_oid is None else f"has oid {self.asked_oid}"
        return (
            f"region {self.region} has published to {self.table}, the table with oid {self.oid},"
            f" and {self.asked} {now}: a table moves with its rows. Rename it (ALTER TABLE ..."
            " RENAME TO, or SET SCHEMA), then move the region"
        )


class KeyTextsChanged(TargetRefused):
    """A column of an upsert's key has a type that makes other texts than those in the ledger."""

    region: str
    table: str
    found: dict[str, str]
    """The form of the texts now, by column."""

    def __str__(self) -> str:
        found = ", ".join(f"{name} is now a {form}" for name, form in self.found.items())
        return (
            f"region {self.region}: a column of the key of {self.table} has got another type"
            f" ({found}), and the ledger knows keys by the texts of the old one. Nothing was"
            " changed. Give the column its old type, or start the next run with --accept-changes:"
            " then the ledger does not recognize keys that were deleted earlier, so an older row of"
            " another partition could bring one back, and no rewind can go back past this point"
        )


class TableIsAnother(TargetRefused):
    """The target's name is no longer that of the table that its rows have gone to."""

    region: str
    table: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.table} is not the table that the region published to:"
            " that one was renamed, dropped or made anew. Nothing was changed. Put the old table"
            " back, or start the next run with --accept-changes: new rows then go to the table that"
            " has the name now"
        )


class BatchNotReplayable(Refused):
    """A batch can't be read again."""

    region: str
    seq: int
    why: Literal["unknown", "pruned", "replay", "upserted", "purged"]
    purged: int = 0
    """Dead letters of it that were purged."""

    def __str__(self) -> str:
        fault = {
            "unknown": "is no checkpoint (`tidemark checkpoints` lists them)",
            "pruned": "is pruned from the ledger",
            "replay": "has no spans: it is a replay of dead letters. A rewind takes it back",
            "upserted": "was upserted: later batches may have its rows. A rewind takes it back",
            "purged": f"had {self.purged} dead letters that were purged, so it is unknown whether a"
            " replay had made rows of them",
        }[self.why]
        return f"region {self.region}: batch {self.seq} can't be replayed: it {fault}"


class SpansReadOtherwise(StagingLost):
    """Spans of a batch that is read again are missing, or have another number of records."""

    region: str
    seq: int
    spans: int
    read: int
    """Spans with as many records as before."""

    def __str__(self) -> str:
        return (
            f"region {self.region}: only {self.read} of the {self.spans} spans of batch {self.seq}"
            " gave as many records as the ledger counted. Nothing was replaced; run the replay"
            " again"
        )


class DeadLettersPurgedMeanwhile(Refused):
    """Dead letters of a batch were purged while it was read again."""

    region: str
    seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: dead letters of batch {self.seq} were purged meanwhile; nothing"
            " was changed"
        )


class DeadLettersAreRewound(Refused):
    """A rewind has counted the dead letters that are to be purged."""

    region: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: a rewind is under way and has counted the dead letters that it"
            f" removes; wait for it. If it died, `tidemark reset {self.region} --apply` ends it"
        )


class DeadLettersToSendDiffer(Refused):
    """The dead letters of a batch that are to be sent are not as many as were published."""

    region: str
    seq: int
    published: int
    found: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: batch {self.seq} published {self.published} dead letters, and"
            f" {self.found} are there to be sent: somebody else deleted or inserted some. Nothing"
            " of the batch was sent. If the topic's consumers can miss them,"
            f" `tidemark withhold {self.region} {self.seq}` lets it pass"
        )
