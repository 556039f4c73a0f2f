"""One member's part of a run: who it is, and what it works with."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemark.errors import Fenced, TidemarkError
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Member
from tidemark.ledger.errors import EpochHasPassed
from tidemark.ledger.ledger import Ledger
from tidemark.model.output import Parts
from tidemark.runs.errors import MemberFenced

if TYPE_CHECKING:
    from tidemark.runs.job import Job


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sending:
    """What a run is bound by that sends to an output topic."""

    parts: Parts
    max_unsent: int
    """Batches that are published and not sent, above which none is planned."""
    max_seconds: int
    """How long one transaction may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRun:
    """A registered member of a run under its epoch."""

    region: str
    epoch: int
    number: int
    """The member's number in the ledger: it keys what the member stages."""
    topics: Sequence[str]
    """The run's topics, as its target offsets name them."""
    in_flight: int
    """Unpublished batches that the run may have."""
    ledger: Ledger
    broker: Broker
    group: Group
    member: Member
    is_expected: bool
    """Whether there is a partition for each member of the run."""
    no_progress_seconds: int
    """How long the run may stand still."""
    sending: Sending | None
    start_job: "Callable[[], Job]"
    """Starts the executor; the targets are there and fit."""
    transform: str | None
    writer: str | None
    """The role of its tasks, where that is not the member's own."""

    def is_fenced(self) -> bool:
        """Whether the ledger holds another epoch; unknown is no."""
        try:
            return self.ledger.epoch(self.region) != self.epoch
        except TidemarkError as error:
            log.warning("epoch unknown: %s", error)
            return False

    def fenced(self) -> Fenced:
        """The error of a member whose epoch has passed, or was lost by Postgres."""
        with suppress(TidemarkError):
            found = self.ledger.epoch(self.region)
            if found is not None and found < self.epoch:
                return EpochHasPassed(region=self.region, epoch=self.epoch, found=found)
        return MemberFenced(region=self.region, epoch=self.epoch)
