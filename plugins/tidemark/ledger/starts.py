"""How a region's next run comes about: what refused its newest open, and what its doorbell says.

Doorbells and people read it; no decision of a run does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.ledger.reader import Lookup
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit, transaction


@dataclass(frozen=True, slots=True)
class RefusedOpen:
    """The newest open of a region, which took no epoch."""

    run_id: str
    code: str
    """Of the error that refused it, or the error's class where it is not one of ours."""
    case: str
    fingerprint: str
    """Of the pipeline file that it was given: see `file_fingerprint`."""
    at: datetime
    """By the database's clock."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a region's doorbell said of itself last."""

    code: str | None
    """Of the error that keeps it from looking; None: it looks."""
    case: str | None
    since: datetime
    """When it began to say so."""
    is_old: bool
    """Nothing was heard of it for ten minutes: the triggerer is away, or it has no doorbell now."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Starts:
    """What stands in the way of a region's next run."""

    refused: RefusedOpen | None = None
    """None: its newest open took an epoch, or the region has another one since."""
    doorbell: Said | None = None
    """None: it never said anything; most schedules have none."""


NO_STARTS = Starts()


@dataclass(frozen=True, slots=True)
class Awaited:
    """A region as its doorbell sees it."""

    epoch: int
    """0 before its first open."""
    is_at_rest: bool
    """It never opened, or nobody is at work in it, and its newest run did not fail."""
    offsets: Offsets
    refused: RefusedOpen | None = None


NEVER_OPENED = Awaited(0, True, {})


class StartsLookup(Lookup):
    """Reads and writes both tables, each by one statement for many regions."""

    def are_kept(self) -> bool:
        """Whether the ledger is there, and of a version that keeps them."""
        return bool(self._rows("starts_are_kept")[0][0])

    def starts(self, regions: Sequence[str]) -> dict[str, Starts]:
        """Of each region; nothing where the ledger keeps none."""
        if not self.are_kept():
            return {}
        return {
            region: Starts(
                refused=RefusedOpen(*found[:5]) if found[0] else None,
                doorbell=Said(*found[5:]) if found[-1] else None,
            )
            for region, *found in self._rows("starts", regions=list(regions))
        }

    def awaited(self, regions: Sequence[str]) -> dict[str, Awaited]:
        """Each region as its doorbell sees it.

        Without a ledger, or with one that the next open will migrate, each awaits that open.
        """
        if not self.are_kept():
            return dict.fromkeys(regions, NEVER_OPENED)
        return {
            region: Awaited(
                epoch=epoch,
                is_at_rest=is_at_rest,
                offsets={TopicPartition(topic, number): at for topic, number, at in offsets},
                refused=RefusedOpen(*refused) if refused[0] else None,
            )
            for region, epoch, is_at_rest, offsets, *refused in self._rows(
                "awaited", regions=list(regions)
            )
        }

    def say_doorbells(self, said: Mapping[str, tuple[str, str] | None]) -> None:
        """Of each region the code and the case that keep its doorbell from looking; None: it looks.

        Raises:
            Refused: the login may not write it.
        """
        values = {
            "regions": list(said),
            "codes": [problem and problem[0] for problem in said.values()],
            "cases": [problem and problem[1] for problem in said.values()],
        }
        with autocommit(self.engine) as cursor:
            cursor.execute(query("say_doorbells"), values)

    def keep_refused_open(
        self, region: str, run_id: str, problem: tuple[str, str], fingerprint: str
    ) -> None:
        """The ledger has the code and the case of an open that took no epoch, and nothing else.

        Raises:
            Refused: the ledger is not migrated, or the login may not write it.
        """
        values = {
            "region": region,
            "run_id": run_id,
            "code": problem[0],
            "error_case": problem[1],
            "fingerprint": fingerprint,
        }
        with transaction(self.engine, "refused_open") as cursor:
            cursor.execute(query("keep_refused_open"), values)
