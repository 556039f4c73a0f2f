"""What a ledger in memory leaves out: a test that comes there needs a real one."""

from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.state import FinishedReset
from tidemark.protocol.ports import NewReset
from tidemark.protocol.removal import Removal
from tidemark.protocol.rewind_plan import RewindPlan


class NoRewinds:
    """Of a transaction that may take the next epoch."""

    def rewind_plan(self, to_seq: int) -> RewindPlan:
        raise NotImplementedError

    def finished_reset(self, request_id: str) -> FinishedReset | None:
        raise NotImplementedError


class NoRemovals:
    """Of a transaction of one epoch."""

    def bytes_per_offset(self) -> dict[TopicPartition, float]:
        raise NotImplementedError

    def write_bound(self, bound: str) -> None:
        raise NotImplementedError

    def pass_over(self, span: Span) -> None:
        raise NotImplementedError

    def published_after(self, seq: int) -> Removal:
        raise NotImplementedError

    def rewind(self, to_seq: int) -> tuple[int, int]:
        raise NotImplementedError

    def finish_reset(self, removed: Removal) -> None:
        raise NotImplementedError

    def abandon_reset(self) -> None:
        raise NotImplementedError

    def withhold(self, seq: int, sent_seq: int, request: NewReset) -> bool:
        raise NotImplementedError
