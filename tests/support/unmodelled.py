"""What a ledger in memory leaves out: a test that comes there needs a real one."""

from collections.abc import Mapping
from typing import NoReturn

from tidemark.model.batch import Batch, Contribution, Moved, Removal
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.plan import BatchSizes
from tidemark.model.state import FinishedReset
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

    def newest_sizes(self) -> BatchSizes:
        raise NotImplementedError  # the model's batches are bounded by records alone

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

    def withhold(self, seq: int, sent_seq: int, who: str, why: str) -> bool:
        raise NotImplementedError


class NoReplays:
    """Of a transaction of one epoch."""

    def write_replay(self, meant: DeadLetterFilter, limit: int) -> Batch | None:
        raise NotImplementedError

    def write_contribution(self, batch: Batch, contribution: Contribution) -> None:
        raise NotImplementedError

    def mark_replayed(self, batch: Batch) -> int:
        raise NotImplementedError

    def publish_replay(
        self,
        batch: Batch,
        contribution: Contribution,
        moved: Mapping[str, Moved],
        replayed: int,
        kept: int,
    ) -> int:
        raise NotImplementedError


class NoTables:
    """Of a transaction of one epoch: there is no table to be kept."""

    @property
    def cursor(self) -> NoReturn:
        raise NotImplementedError

    def contributed_rows(self, batch: Batch, target: str) -> int:
        raise NotImplementedError

    def keep_target(self, target: str, schema: str, table: str) -> None:
        raise NotImplementedError

    def keep_key(self, target: str, table: str, forms: Mapping[str, str]) -> None:
        raise NotImplementedError
