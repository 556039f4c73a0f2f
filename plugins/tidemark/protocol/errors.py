"""What the steps can meet: an epoch that has passed, a change that nobody meant, a loss.

A room has one such file, by which its errors are found. It is long, for each case has its
own fields and text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tidemark.errors import (
    ClaimsLost,
    Fenced,
    InvalidSettings,
    MirrorFailed,
    Refused,
    RunNotDone,
    StagingLost,
    Superseded,
    TidemarkError,
    Unreachable,
)
from tidemark.model.batch import Removal
from tidemark.model.errors import epoch_is_lost
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.output import Sent, Topics
from tidemark.model.state import FinishedReset


class BatchDied(
    Fenced,
    text="region {region}: batch {seq} of the replay is no longer planned: a newer epoch has"
    " discarded it, or Postgres has lost its plan, as in a fail-over. Nothing was published;"
    " replay again what is still wanted",
):
    region: str
    seq: int


class BatchNotNextHead(
    Fenced,
    text="region {region}: batch {seq} can't be published: the batch before it is not the head",
):
    region: str
    seq: int


class MirrorOvertaken(Fenced, text="region {region}: a newer mirror was written meanwhile"):
    region: str


class MirrorEpochPassed(Fenced):
    """The region has another epoch than the mirror was to be written under."""

    region: str
    epoch: int
    now_at: int

    def __str__(self) -> str:
        if self.now_at < self.epoch:
            return epoch_is_lost(self.region, self.epoch, self.now_at)
        return (
            f"region {self.region}: epoch {self.epoch} has passed, the region is at {self.now_at}"
        )


class MirrorsTookOver(
    MirrorFailed,
    text="region {region}: other mirrors of epoch {epoch} took over each time",
):
    region: str
    epoch: int


class MirrorReadBackDiffers(
    MirrorFailed,
    text="region {region}: Kafka's group offsets differ from the ledger's after the mirror:"
    " {differences:clauses}. Another process commits in this group; give the region a group of its"
    " own",
):
    region: str
    differences: tuple[str, ...]


class SpanAlreadyClaimed(TidemarkError, text="batch {seq}: another contribution was accepted"):
    """Another contribution was accepted for one of the spans: this one never was."""

    seq: int


class DeadLettersUnread(
    StagingLost,
    text="region {region}, batch {seq}: only {read} of {chosen} chosen dead letters were read, so"
    " none was replayed. Let the executors' login see all of tidemark.dead_letters: no row"
    " security, and no balancer that sends its SELECT to a standby",
):
    region: str
    seq: int
    chosen: int
    read: int


class OwnRowsLost(
    StagingLost,
    text="region {region}, epoch {epoch}, batch {seq}: {rows} of {contributed_rows} staged rows"
    " and {dead_letters} of {contributed_dead_letters} staged dead letters are there, as after a"
    " crash of Postgres. Nothing of them was claimed; a retry or the next run drains them again",
):
    region: str
    epoch: int
    seq: int
    rows: int
    contributed_rows: int
    dead_letters: int
    contributed_dead_letters: int


class ClaimedRowsLost(
    ClaimsLost,
    text="region {region}, epoch {epoch}: {cause}. Members have claimed some of these records, so"
    " only the next run can drain them: start it",
):
    """What is staged under claims of a batch is not all there."""

    region: str
    epoch: int
    cause: str
    """What was found to be lost."""


class RunNeverOpened(
    RunNotDone,
    text="region {region}: run {run_id} never opened; look at its open task",
):
    region: str
    run_id: str


class RunUnfinished(RunNotDone, text="region {region}, epoch {epoch}: {reasons:clauses}"):
    """The ledger, or Kafka, has reasons not to call the run done."""

    region: str
    epoch: int
    reasons: tuple[str, ...]
    """As the ledger keeps them beside the run."""


class SettleDidNotHappen(
    Unreachable,
    text="region {region}: {cause}; the ledger shows that this was not committed. Try again",
):
    """A COMMIT had no answer, and the ledger shows nothing of what it was to write."""

    region: str
    cause: str


class OpenOvertaken(
    Superseded,
    text="region {region}: epoch {epoch} passed while run {run_id} was opened, the region is now"
    " at {now_at}: another open or a reset took over",
):
    region: str
    run_id: str
    epoch: int
    now_at: int


class NothingLeftToReset(Superseded):
    """Another epoch than that of the run to be reset holds the region."""

    region: str
    epoch: int
    now_at: int

    def __str__(self) -> str:
        if self.now_at < self.epoch:
            return epoch_is_lost(self.region, self.epoch, self.now_at)
        return (
            f"region {self.region}: the run's epoch {self.epoch} has passed, the region is at"
            f" {self.now_at}; there is nothing left to reset"
        )


class LookedTooEarly(
    Superseded,
    text="region {region}: epoch {epoch} passed while the {act} was prepared, the region is now at"
    " {now_at}. Nothing was changed. Look again, and repeat it if it is still wanted",
):
    region: str
    act: str
    epoch: int
    now_at: int


class ApprovalOutdated(
    Superseded,
    text="region {region}: what was approved goes from batch {head_seq} of epoch {epoch} to batch"
    " {to_seq}; the region is now at batch {now_head_seq} of epoch {now_epoch}, and it would go to"
    " batch {now_to_seq}. Nothing was changed. Pause the region's DAG, and ask for approval again",
):
    region: str
    epoch: int
    head_seq: int
    to_seq: int
    now_epoch: int
    now_head_seq: int
    now_to_seq: int


class SettleOvertaken(
    Superseded,
    text="region {region}: another open or reset took over, and nothing was {done}. The other one"
    " sets Kafka's offsets. Repeat it if it is still wanted",
):
    region: str
    done: str


class WithholdSentUnknown(
    Refused,
    text="region {region}: the group's offsets in Kafka do not name one batch as the last that was"
    " sent. Nothing was withheld. Stop whoever else commits in the group, then withhold again",
):
    region: str


class BatchNotNextToSend(
    Refused,
    text="region {region}: batch {seq} is not the lowest one that is published and not sent: batch"
    " {sent_seq} was sent last. Nothing was withheld. `tidemark status {region}` shows what is not"
    " sent",
):
    region: str
    seq: int
    sent_seq: int


class RunsResetTooOften(
    Refused,
    text="region {region}: {resets} runs in a row were reset and published nothing,"
    " max_consecutive_resets is {limit}. Find the cause in the log of the last run; then `tidemark"
    " reset {region} --apply` clears the count",
):
    region: str
    resets: int
    limit: int


class AlreadyReset(
    Refused,
    text="region {region}: {request_id} has already reset it ({finished}). A cleared run does not"
    " reset again: nothing was changed. To reset once more, trigger a new run of the DAG",
):
    region: str
    request_id: str
    finished: FinishedReset


@dataclass(frozen=True, slots=True)
class SettingDiffers:
    """A setting with its value of before and of now."""

    name: str
    was: object
    now: object

    def __str__(self) -> str:
        return f"{self.name} was {self.was!r} and is {self.now!r}"


@dataclass(frozen=True, slots=True)
class TableDiffers:
    """A target whose name belongs to another table, or to none."""

    table: str
    oid: int
    found: int | None

    def __str__(self) -> str:
        now = "is not there" if self.found is None else f"has {self.found}"
        return (
            f"target.table {self.table} had oid {self.oid} and {now}: it was renamed, dropped or"
            " made anew, or the database was restored from a dump, which gives tables new oids"
        )


@dataclass(frozen=True, slots=True)
class KeyDiffers:
    """A column of an upsert's key that the ledger knows by other texts than it has now."""

    table: str
    column: str
    was: str
    now: str
    """Forms of texts, see `text_form`."""

    def __str__(self) -> str:
        return (
            f"target.key: column {self.column} of {self.table} was a {self.was} and is a"
            f" {self.now}: the ledger stores keys as texts of the old type, so with the new one it"
            " would not recognize keys that were deleted earlier, and an older row of another"
            " partition could bring one back"
        )


Change = SettingDiffers | TableDiffers | KeyDiffers


class ChangedSinceCheckpoint(
    Refused,
    text="region {region}: {changes:clauses}. The checkpoint was made with the old values. Restore"
    " them, use a new region, or start a run with --accept-changes: new rows are made with the new"
    " values, old rows stay as they are",
):
    region: str
    changes: tuple[Change, ...]


class ChangedBeforeReplay(
    Refused,
    text="region {region}: {changes:clauses}. The checkpoint was made with the old values. Start a"
    " run with --accept-changes first, then replay",
):
    region: str
    changes: tuple[Change, ...]


class ChangedSinceOpen(
    Refused,
    text="region {region}: {changes:clauses} since the run of epoch {epoch} was opened. This"
    " member read nothing. Restore the file, or start a new run: it asks whether the change is"
    " meant",
):
    region: str
    epoch: int
    changes: tuple[Change, ...]


class OutputChangedSinceRun(
    Refused,
    text="region {region}: {changes:clauses} since its newest run. Nothing is sent, and no offset"
    " written. Use the file of that run, or start a run with this one first",
):
    region: str
    changes: tuple[Change, ...]


class TargetsChanged(Refused):
    """The names or the tables of the targets are not those of the checkpoint."""

    region: str
    known: Mapping[str, str]
    given: Mapping[str, str]

    def __str__(self) -> str:
        known, given = tables_by_name(self.known), tables_by_name(self.given)
        return (
            f"region {self.region} has target {known}, the pipeline says {given}. A region with a"
            " checkpoint keeps its target: use a new region for another one, also if the same table"
            " has a new name (docs/administration.md, Another name or group)"
        )


def tables_by_name(targets: Mapping[str, str]) -> str:
    """The tables, with their names where they have one, in the order of these."""
    named = sorted(targets.items())
    return ", ".join(f"{name}: {table}" if name else table for name, table in named)


class RewindPlaceUnknown(Refused):
    """There is no such checkpoint to rewind to, or it is pruned."""

    region: str
    to_seq: int
    oldest_seq: int
    head_seq: int

    def __str__(self) -> str:
        oldest = f"; the oldest retained one is {self.oldest_seq}" if self.oldest_seq else ""
        return (
            f"{_no_rewind(self.region, self.to_seq)}: there is no such checkpoint{oldest}, the head"
            f" is {self.head_seq} (`tidemark checkpoints` lists them)"
        )


class RewindNotReadable(Refused):
    """What a rewind would take back can't be read again."""

    region: str
    to_seq: int
    ended: tuple[str, ...]
    """Partitions where a later run went on without lost or corrupt offsets."""
    not_held: tuple[TopicPartition | Span, ...]
    """Partitions that are not those that were read, and spans below the log start."""

    def __str__(self) -> str:
        faults = [
            f"a later run went on without offsets of {name} that were lost or corrupt, and no"
            " rewind can go back past that point"
            for name in self.ended
        ]
        faults += [
            f"{one} is below Kafka's log start and can't be read again"
            if isinstance(one, Span)
            else f"{one} is gone from Kafka or was created again"
            for one in self.not_held
        ]
        where = _no_rewind(self.region, self.to_seq)
        return f"{where}: {'; '.join(faults)}. Nothing was changed. Rewind to a newer checkpoint"


class RewindOfLeftTopics(Refused):
    """A rewind would take back rows of topics that nobody reads any more."""

    region: str
    to_seq: int
    left: Mapping[Span, int]
    """What would not be read again, with the records that it held."""

    def __str__(self) -> str:
        found = "; ".join(f"{span}, {records} records" for span, records in self.left.items())
        return (
            f"{_no_rewind(self.region, self.to_seq)}: the pipeline no longer reads {found}. Their"
            " rows would be removed and not come again. Nothing was changed. Name the topics in"
            " kafka.topics, start a run with --accept-changes, and rewind then; or rewind to a"
            " newer checkpoint; or accept the loss with --accept-data-loss"
        )


def _no_rewind(region: str, to_seq: int) -> str:
    return f"region {region} can't be rewound to {to_seq or 'its initial state'}"


class RewindOfSentBatches(
    Refused,
    text="region {region}: {batches} batches would be taken back. What was sent of them, {topics},"
    " stays there; what is read again is sent again, under new seqs. Nothing was changed. If the"
    " consumers of the topic can bear that, rewind with --accept-resend",
):
    region: str
    batches: int
    """That would be taken back; the last of them may not be sent yet."""
    topics: Topics


class RemovalDiffers(Refused):
    """Rows or dead letters that would be removed are not exactly those that were published."""

    region: str
    published: Removal
    found: Removal

    def __str__(self) -> str:
        return (
            f"region {self.region} can't be rewound: the ledger published {self.published}, but"
            f" {self.found} would be removed. Somebody else deleted or inserted rows, or detached a"
            " partition of the table. Nothing was removed. `tidemark verify` names the rows;"
            " correct them, or go on with --accept-changes: what is there is removed and read"
            " again. Rows that are now in another table or a detached partition stay there, and"
            " arrive twice"
        )


ResumeFault = Literal["held", "sent", "pruned", "unknown"]


class OutputResumeAfterWrong(Refused):
    """The batch that output.resume_after names can't be the newest one that was sent."""

    region: str
    seq: int
    fault: ResumeFault
    """What speaks against it: the topics' records, what was sent, what is pruned, or nothing known
    of such a batch."""
    topics: Topics
    held: int | None
    """The newest batch that the topics' own records name."""
    sent_seq: int
    """The newest batch that the ledger knows as sent; 0: none."""
    oldest_seq: int

    @property
    def best(self) -> int:
        """What to say instead: the newest batch that may have been sent, or is pruned."""
        return max(self.sent_seq, self.oldest_seq - 1, self.held or 0)

    def __str__(self) -> str:
        fault = {
            "held": f"the newest record of the region in {self.topics.named} is of batch"
            f" {self.held}",
            "sent": f"the ledger knows that batch {self.sent_seq} was sent",
            "pruned": f"batches before {self.oldest_seq} are pruned, and can't be sent any more",
            "unknown": "the ledger holds no such batch",
        }[self.fault]
        return (
            f"region {self.region}: output.resume_after is {self.seq}, but {fault}. Nothing was"
            f" sent. Set output.resume_after: {self.best}"
        )


class OutputTailsUnread(
    Refused,
    text="region {region}: the group's offsets do not say what was sent, and the last records of"
    " {partitions:list} were written by others. Nothing was sent. Set output.resume_after to the"
    " newest batch that the region has sent there, or to 0 if it never sent any",
):
    region: str
    partitions: tuple[TopicPartition, ...]


class OutputMarkUnknown(Refused):
    """The group's offsets do not name one batch of this ledger as sent."""

    region: str
    marks: tuple[Sent, ...]
    """What they name, in order."""
    topics: Topics
    held: int | None
    """The newest batch that the topics' own records name."""
    sent_seq: int | None
    """The newest batch that the ledger knows as sent."""
    is_too_old: bool = False
    """The batch that they name is one of this ledger, and a later one was sent."""
    was_published: bool = True
    """Whether the region ever published a batch: else none of its own was sent."""

    @property
    def best(self) -> int | None:
        """What to say by output.resume_after; None: nobody here knows."""
        known = [seq for seq in (self.held, self.sent_seq) if seq is not None]
        return max(known, default=None if self.was_published else 0)

    def __str__(self) -> str:
        named = ", ".join(f"batch {one.seq} ({one.uuid})" for one in self.marks)
        best = "SEQ" if self.best is None else self.best
        if not self.marks:
            found = "the offsets of the group do not say what was sent: Kafka has lost them"
        elif len(self.marks) > 1:
            found = f"the offsets of the group name different batches as sent: {named}"
        elif self.is_too_old:
            found = (
                f"the offsets of the group name {named} as sent, and batch {best} was: Kafka has"
                " lost newer offsets"
            )
        else:
            found = (
                f"{named} was sent, and is no batch of this ledger: it was restored from a backup,"
                " or the region was dropped and made again"
            )
        there = f"batch {self.held}" if self.held is not None else "none"
        return (
            f"region {self.region}: {found}. Nothing was sent. The newest batch of the region in"
            f" {self.topics.named} is {there}: to send what was published after it, set"
            f" output.resume_after: {best}"
        )


class OutputStartUnsaid(Refused):
    """Nothing says which batches were sent, and the topics hold none of them."""

    region: str
    topics: Topics
    sent_seq: int | None

    def __str__(self) -> str:
        known = self.sent_seq
        return (
            f"region {self.region}: nothing says which of its batches were sent to"
            f" {self.topics.named}: none of them is there. If none ever was, set output.start:"
            " beginning (all batches) or end (later ones alone). If Kafka has lost the group's"
            " offsets, set output.resume_after to the newest batch that was sent"
            + (f": the ledger knows of {known}" if known is not None else "")
        )


class OutputStartPruned(Refused):
    """All batches are to be sent, and the first of them are pruned."""

    region: str
    oldest_seq: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: output.start is beginning, but batches before {self.oldest_seq}"
            " are pruned: their rows can't be counted. Set output.start: end, or"
            f" output.resume_after: {self.oldest_seq - 1}"
        )


class ResetPlaceMalformed(
    InvalidSettings,
    text="{given!r} is not a place to reset to: use last, initial, the seq of a checkpoint"
    " (`tidemark checkpoints`), or a time such as 2026-01-31T12:00:00Z",
):
    given: str


class ResetSeqTooLarge(
    InvalidSettings,
    text="{given} is not the seq of a checkpoint: the largest possible one is {limit}. `tidemark"
    " checkpoints` lists those that exist",
):
    given: str
    limit: int


class ResetTimeTooEarly(InvalidSettings):
    """A time lies before those that Kafka knows."""

    moment: datetime

    def __str__(self) -> str:
        return (
            f"{self.moment.isoformat()} lies before 1970, where Kafka's times begin: use initial"
            " for the initial state"
        )
