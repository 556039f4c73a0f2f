"""The requests to reset a region, to rewind it to a checkpoint, and to withhold a batch."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import ClassVar
from uuid import UUID, uuid4

from tidemark.model.facts import Facts
from tidemark.model.output import NOWHERE, Topics
from tidemark.model.plain import moment
from tidemark.model.plan import MAX_BIGINT
from tidemark.model.state import NEVER_MIRRORED, Mirrored, NewReset, RegionState, ResetKind
from tidemark.protocol.changes import refuse_other_targets
from tidemark.protocol.errors import (
    AlreadyReset,
    ApprovalOutdated,
    LookedTooEarly,
    NothingLeftToReset,
    ResetPlaceMalformed,
    ResetSeqTooLarge,
    ResetTimeTooEarly,
)
from tidemark.protocol.ports import Settling


@dataclass(frozen=True, slots=True)
class _Request:
    """What all of them have."""

    who: str
    why: str
    _: KW_ONLY
    mirrored: Mirrored = NEVER_MIRRORED
    gone: frozenset[str] = frozenset()
    """Topics that Kafka no longer has: it takes no group offsets for them."""
    uuid: UUID = field(default_factory=uuid4)

    name: ClassVar[str] = "reset"


@dataclass(frozen=True, slots=True)
class Approved:
    """What a person has approved: a reset from this state of the region to this checkpoint."""

    epoch: int
    head_seq: int
    to_seq: int

    def refuse_other(self, state: RegionState, to_seq: int) -> None:
        """Refuse a reset that is not the approved one.

        Raises:
            Superseded: it is another.
        """
        if (state.epoch, state.head_seq, to_seq) != (self.epoch, self.head_seq, self.to_seq):
            raise ApprovalOutdated(
                region=state.region,
                epoch=self.epoch,
                head_seq=self.head_seq,
                to_seq=self.to_seq,
                now_epoch=state.epoch,
                now_head_seq=state.head_seq,
                now_to_seq=to_seq,
            )


@dataclass(frozen=True, slots=True)
class ResetRequest(_Request):
    """A reset to the head: by hand without run_id, by the DAG for the run that it names."""

    run_id: str | None = None
    epoch: int | None = None
    request_id: str | None = None
    """Resets once under this name: a DAG run that is cleared asks again. None: each time."""
    is_cancelled: bool = False
    """A person has ended the run, so it is none that failed: it is not counted among these."""
    approved: Approved | None = None
    """None: it goes from whatever state the region is in."""

    kind: ClassVar[ResetKind] = "reset"

    def check(self, tx: Settling) -> None:
        """Do nothing where another epoch holds the region."""
        _refuse_to_repeat(tx, self.request_id)
        if self.epoch is not None and tx.state.epoch != self.epoch:
            raise NothingLeftToReset(
                region=tx.state.region, epoch=self.epoch, now_at=tx.state.epoch
            )
        if self.approved:
            self.approved.refuse_other(tx.state, tx.state.head_seq)

    def write(self, tx: Settling, epoch: int, discarded: tuple[int, ...]) -> None:
        """Leave the audit row."""
        row = NewReset(
            self.kind,
            self.who,
            self.why,
            self.uuid,
            run_id=self.run_id,
            request_id=self.request_id,
            is_cancelled=self.is_cancelled,
        )
        tx.write_reset(epoch, row, discarded)


@dataclass(frozen=True, slots=True)
class RewindRequest(_Request):
    """A reset by hand to an older checkpoint, with the Kafka facts seen just before."""

    to_seq: int
    facts: Facts
    epoch: int
    """The region's, read before Kafka was asked: a rewind removes what was looked at."""
    targets: Mapping[str, str]
    """Tables that rows are removed from, by their names."""
    overrides: tuple[str, ...] = ()
    request_id: str | None = None
    """Resets once under this name: a DAG run that is cleared asks again. None: each time."""
    sent_to: Topics = NOWHERE
    """Where the region sends what is published."""
    approved: Approved | None = None
    """None: it goes from whatever head the region has."""

    def check(self, tx: Settling) -> None:
        """Refuse what cannot be undone or read again, before anyone is fenced."""
        _refuse_to_repeat(tx, self.request_id)
        if tx.state.epoch != self.epoch:
            raise LookedTooEarly(
                region=tx.state.region, act="rewind", epoch=self.epoch, now_at=tx.state.epoch
            )
        if self.approved:
            self.approved.refuse_other(tx.state, self.to_seq)
        refuse_other_targets(tx.state, self.targets)
        plan = tx.rewind_plan(self.to_seq)
        plan.refuse(tx.state, self.facts, self.sent_to, self.overrides)

    def write(self, tx: Settling, epoch: int, discarded: tuple[int, ...]) -> None:
        """Leave the audit row, as started: the second transaction finishes it."""
        row = NewReset(
            "rewind",
            self.who,
            self.why,
            self.uuid,
            request_id=self.request_id,
            to_seq=self.to_seq,
            overrides=self.overrides,
        )
        tx.write_reset(epoch, row, discarded)


@dataclass(frozen=True, slots=True)
class WithholdRequest(_Request):
    """A published batch is never to be sent to the output topic; by hand alone."""

    seq: int
    epoch: int
    """The region's, read before Kafka was asked what was sent."""
    head_seq: int
    """Its offsets are mirrored, and nothing is sent until the batch is withheld."""

    def check(self, tx: Settling) -> None:
        """What was looked at is so still."""
        if tx.state.epoch != self.epoch:
            raise LookedTooEarly(
                region=tx.state.region, act="withholding", epoch=self.epoch, now_at=tx.state.epoch
            )

    def write(self, tx: Settling, epoch: int, discarded: tuple[int, ...]) -> None:
        """Leave the audit row of a reset, as started: the second transaction finishes it."""
        row = NewReset("withhold", self.who, self.why, self.uuid)
        tx.write_reset(epoch, row, discarded)


def _refuse_to_repeat(tx: Settling, request_id: str | None) -> None:
    """A request resets once; one that died, or was superseded, before it was done may go on."""
    finished = tx.finished_reset(request_id) if request_id else None
    if request_id and finished:
        raise AlreadyReset(region=tx.state.region, request_id=request_id, finished=finished)


Destination = int | datetime | None
"""Where a reset goes: None is the head, 0 the initial state, a seq a checkpoint, or a time."""


def destination(text: str) -> Destination:
    """Read last, initial, the seq of a checkpoint, or an ISO 8601 time (UTC without a zone).

    Raises:
        InvalidSettings: it is none of them.
    """
    named: dict[str, Destination] = {"last": None, "initial": 0}
    if text in named:
        return named[text]
    if text.isdecimal():
        return _seq(text)
    try:
        at = moment(text)
    except ValueError:
        raise ResetPlaceMalformed(given=text) from None
    return _time(at)


def _seq(text: str) -> int:
    if len(text) > len(str(MAX_BIGINT)) or int(text) > MAX_BIGINT:
        raise ResetSeqTooLarge(given=text, limit=MAX_BIGINT)
    return int(text)


def _time(at: datetime) -> datetime:
    if at.timestamp() < 0:  # Kafka has other meanings for negative times
        raise ResetTimeTooEarly(moment=at)
    return at
