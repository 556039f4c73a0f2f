"""What the ledger can meet: a region, an epoch or a batch that is not as somebody thought."""

from tidemark.errors import Fenced, Refused, Superseded, TargetRefused
from tidemark.model.errors import epoch_is_lost
from tidemark.model.state import Owner


class LedgerIsNewer(
    Refused,
    text="the ledger is at revision {revision}, made by a newer version of Tidemark; this one"
    " knows revisions up to {newest}: upgrade Tidemark",
):
    revision: str
    newest: str
    """That this version knows."""


class RegionNeverOpened(
    Refused,
    text="region {region} is not in the ledger yet: start its first run",
):
    region: str


class RegionNotAtRest(
    Refused,
    text="region {region} is not at rest: a run or a reset is at work, or died there. Nothing was"
    " changed. Wait for it, or end it: `tidemark reset {region} --apply`",
):
    region: str


class RegionNotReadBack(
    Refused,
    text="region {region}: its newest run failed, or its epoch was taken for something else: the"
    " offsets of group {group} in Kafka may not be the ledger's, and a new region would go on from"
    " them. Nothing was changed. Write them first: `tidemark reset {region} --apply`",
):
    region: str
    group: str


class RegionChangedMeanwhile(
    Superseded,
    text="region {region}: epoch {epoch} has passed, the region is at {found}: a run or a reset"
    " began meanwhile. Nothing was changed; look at the dry run again, then repeat the command",
):
    region: str
    epoch: int
    found: int


class EpochHasPassed(Fenced):
    """The region has another epoch than the process that writes."""

    region: str
    epoch: int
    found: int

    def __str__(self) -> str:
        if self.found < self.epoch:
            return epoch_is_lost(self.region, self.epoch, self.found)
        return (
            f"region {self.region}: epoch {self.epoch} has passed, the region is at {self.found}:"
            " another run or a reset took over, and this process can no longer write"
        )


class RunIsPruned(
    Fenced,
    text="region {region}: the run of epoch {epoch} has passed and was pruned from the ledger",
):
    region: str
    epoch: int


class CheckpointNotRestored(
    Fenced,
    text="region {region}: checkpoint {seq} can't become the head: another run or reset has taken"
    " the epoch",
):
    region: str
    seq: int


class RegionHasOwners(
    Refused,
    text="{owners:clauses}: a group and a table belong to one region. Give region {region} its own"
    " (kafka.group, target.table); if it is to take the place of the other one, drop that first"
    " (`tidemark region drop`)",
):
    region: str
    owners: tuple[Owner, ...]


class RegionKeepsGroup(
    Refused,
    text="region {region} has consumer group {group!r}, the pipeline says {asked!r}; a region"
    " keeps its group. Another group needs a new region (docs/administration.md, Another name or"
    " group)",
):
    region: str
    group: str
    asked: str


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


class TableIsAnother(
    TargetRefused,
    text="region {region}: {table} is not the table that the region published to: that one was"
    " renamed, dropped or made anew. Nothing was changed. Put the old table back, or start the"
    " next run with --accept-changes: new rows then go to the table that has the name now",
):
    region: str
    table: str


class DeadLettersAreRewound(
    Refused,
    text="region {region}: a rewind is under way and has counted the dead letters that it removes;"
    " wait for it. If it died, `tidemark reset {region} --apply` ends it",
):
    region: str


class DeadLettersToSendDiffer(
    Refused,
    text="region {region}: batch {seq} published {published} dead letters, and {found} are there"
    " to be sent: somebody else deleted or inserted some. Nothing of the batch was sent. If the"
    " topic's consumers can miss them, `tidemark withhold {region} {seq}` lets it pass",
):
    region: str
    seq: int
    published: int
    found: int
