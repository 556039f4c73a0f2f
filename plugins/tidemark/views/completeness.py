"""Whether a region stands where somebody waits for it: at a checkpoint, or complete at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.ledger.queries import Completeness


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody waits for; of two, both."""

    seq: int | None = None
    """The head is this checkpoint, or a newer one."""
    complete_at: datetime | None = None
    """All that a consumer could see at that time is in the targets, or a dead letter."""

    def is_reached(self, found: Completeness | None) -> bool:
        """Whether that is so; not of a region that the ledger does not know."""
        if found is None:
            return False
        if self.seq is not None and found.seq < self.seq:
            return False
        if self.complete_at is None:
            return True
        return found.complete_at is not None and found.complete_at >= self.complete_at

    def as_dict(self) -> dict[str, Any]:
        """In plain values, for `of`."""
        moment = self.complete_at
        return {"seq": self.seq, "complete_at": moment.isoformat() if moment else None}

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Wanted":
        """The one that `as_dict` wrote."""
        moment = found["complete_at"]
        return cls(found["seq"], datetime.fromisoformat(moment) if moment else None)
