"""One member's part of a run: who it is, and what it works with."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemark.errors import TidemarkError
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Member
from tidemark.ledger.ledger import Ledger
from tidemark.runs.errors import MemberFenced
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.runs.job import JobExecutor


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberRun:
    """A registered member of a run under its epoch."""

    pipeline: Pipeline
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
    executor_of: "Callable[[], JobExecutor]"
    """Starts the executor."""
    writer: str | None = None
    """The role of its tasks, where that is not the member's own."""

    @property
    def region(self) -> str:
        """The region's name."""
        return self.pipeline.region

    def is_fenced(self) -> bool:
        """Whether the ledger holds another epoch; unknown is no."""
        try:
            return self.ledger.epoch(self.region) != self.epoch
        except TidemarkError as error:
            log.warning("epoch unknown: %s", error)
            return False

    def fenced(self) -> MemberFenced:
        """The error of a member whose epoch has passed."""
        return MemberFenced(region=self.region, epoch=self.epoch)
