"""What the steps ask of the ledger, of the target, of Kafka and of an output topic.

They are the core's only ways out.
"""

# ruff: noqa: D102 -- what a method does stands where it is done: in the ledger, in staging, in kafka

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from tidemark.model.batch import Batch, Checkpoint, Contribution, Moved, Removal, Rows
from tidemark.model.dead_letters import CommonReason, Counted, DeadLetterFilter, Replayed
from tidemark.model.deletions import UnreadSince
from tidemark.model.facts import Facts, LogEnd, SeenAtOpen
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.output import OutputHistory, OutputRecord, Sent, SentSeqs, Topics, Unsent
from tidemark.model.plan import BatchSize, BatchSizes, Bounds
from tidemark.model.state import (
    FinishedReset,
    Mirrored,
    NewReset,
    NewRun,
    Partition,
    RegionState,
    Run,
)
from tidemark.protocol.rewind_plan import RewindPlan


class Snapshot(Protocol):
    """A look at the ledger and the target: all that it tells was so at one moment."""

    def checkpoint(self, at: int | None) -> Checkpoint:
        """The merged checkpoint of the head, or as of a seq, with the region's epoch."""

    def knows(self, sent: Sent) -> bool:
        """Whether it is a batch of this ledger, published or rewound; or none at all."""

    def newest_up_to(self, seq: int) -> Sent:
        """The newest batch up to a seq, published or rewound."""

    def history(self) -> OutputHistory:
        """What the ledger knows beside the batches."""

    def unsent(self, sent: Sent) -> Sequence[Unsent]:
        """The batches that were published after it and count, in the order of their seqs."""

    def records(self, batch: Unsent) -> Iterator[OutputRecord]:
        """What the batch sends.

        Raises:
            Refused: these are not as many as were published.
        """


class Output(Protocol):
    """A region's output: its topics."""

    @property
    def topics(self) -> Topics:
        """Where rows and dead letters go; one of the two at least."""

    @property
    def sends(self) -> Mapping[str, str]:
        """The settings that say where and how, as a fingerprint has them."""

    @property
    def max_rows(self) -> int:
        """Rows of several batches in one transaction."""

    @property
    def max_seconds(self) -> int:
        """How long one transaction may take."""

    @property
    def start(self) -> str | None:
        """Beginning or end, where the region has published before; None: it was not said."""

    @property
    def resume_after(self) -> int | None:
        """The newest batch in the topic as a person says it."""

    def snapshot(self, region: str) -> AbstractContextManager[Snapshot]:
        """A look at the ledger, for as long as its records are read."""

    def check(self) -> None:
        """It can be sent to.

        Raises:
            InvalidSettings: a topic does not exist.
            Refused: rows can't be encoded, or a registry does not take their schema.
            Unreachable: Kafka or the registry does not answer.
        """

    def sent_seqs(self, region: str) -> SentSeqs:
        """What the ledger knows as sent, and as begun to be sent."""

    def begin_sending(self, region: str, seq: int) -> None:
        """A transaction may send batches up to this one from now on."""

    def newest_seq(self, region: str) -> int | None:
        """The newest batch of the region that the topics' own records name; None: there is none."""

    def raise_next_seq(self, region: str, seq: int) -> None:
        """No batch of the region gets a seq up to this one."""

    def confirm(self, region: str, sent: Sent) -> None:
        """It was read back as sent: the ledger keeps that, and what was kept to send it may go."""


class LedgerRegion(Protocol):
    """A region as the ledger knows it, seen with or without its lock."""

    @property
    def state(self) -> RegionState: ...
    def partitions(self) -> dict[TopicPartition, Partition]: ...
    def target_oid(self, target: str) -> int | None: ...
    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]: ...
    def unread(self) -> Mapping[TopicPartition, UnreadSince]: ...


class Settling(LedgerRegion, Protocol):
    """A ledger transaction that holds the region lock and may take the next epoch."""

    def take_epoch(self, seen: Mirrored) -> int: ...
    def discard_unpublished_batches(self) -> tuple[int, ...]: ...
    def end_histories(self, epoch: int, partitions: list[TopicPartition]) -> None: ...
    def write_initial_offsets(self, initial: Offsets, topic_ids: Mapping[str, str]) -> None: ...
    def write_made_with(
        self, fingerprint: Mapping[str, Any], cluster_id: str, targets: Mapping[str, str]
    ) -> None: ...
    def write_run(self, epoch: int, run: NewRun) -> None: ...
    def log_ends(self) -> dict[TopicPartition, LogEnd]: ...
    def write_target_offsets(self, epoch: int, facts: Facts, seen: SeenAtOpen) -> None: ...
    def rewind_plan(self, to_seq: int) -> RewindPlan: ...
    def finished_reset(self, request_id: str) -> FinishedReset | None: ...
    def write_reset(self, epoch: int, row: NewReset, discarded: Sequence[int]) -> None: ...


class Deciding(Protocol):
    """A ledger transaction that holds the region lock under the region's own epoch.

    Targets lie in the same database: what becomes visible in them is part of it.
    """

    @property
    def head_seq(self) -> int: ...
    @property
    def next_seq(self) -> int: ...

    # plan
    def unpublished_batches(
        self, owned: Collection[TopicPartition] | None = None
    ) -> tuple[Batch, ...]: ...
    def next_offsets(self) -> Offsets: ...
    def target_offsets(self) -> Offsets: ...
    def bounds(self) -> Bounds: ...
    def deletions_are_due(self) -> bool: ...
    def unread(self) -> Mapping[TopicPartition, UnreadSince]: ...
    def bound_reached(self) -> str | None: ...
    def write_bound(self, bound: str) -> None: ...
    def batches_since_reset(self) -> int | None: ...
    def bytes_per_offset(self) -> dict[TopicPartition, float]: ...
    def accepted_corrupt(self) -> tuple[Span, ...]: ...
    def pass_over(self, span: Span) -> None: ...
    def newest_sizes(self) -> BatchSizes: ...
    def write_batch(self, spans: tuple[Span, ...], size: BatchSize) -> Batch: ...

    # contribute and publish
    def is_unpublished(self, batch: Batch) -> bool: ...
    def claim(self, batch: Batch, contribution: Contribution) -> None: ...
    def is_due(self, batch: Batch) -> bool: ...
    def advance_partitions(self, batch: Batch) -> None: ...
    def count_dead_letters(self, batch: Batch) -> Counted: ...
    def commonest_reasons(self, batch: Batch) -> list[CommonReason]: ...
    def publish_batch(
        self, batch: Batch, moved: Mapping[str, Moved], dead_letters_moved: int
    ) -> int: ...
    def advance_head(self, batch: Batch) -> int: ...

    # close
    def published(self) -> tuple[int, int, int, int]: ...
    def close_run(self, state: str, reason: str | None) -> None: ...

    # reset, rewind and withhold
    def published_after(self, seq: int) -> Removal: ...
    def rewind(self, to_seq: int) -> tuple[int, int]: ...
    def finish_reset(self, removed: Removal) -> None: ...
    def abandon_reset(self) -> None: ...
    def withhold(self, seq: int, sent_seq: int, who: str, why: str) -> bool: ...

    # replay dead letters
    def write_replay(self, meant: DeadLetterFilter, limit: int) -> Batch | None: ...
    def write_contribution(self, batch: Batch, contribution: Contribution) -> None: ...
    def mark_replayed(self, batch: Batch) -> int: ...
    def publish_replay(
        self,
        batch: Batch,
        contribution: Contribution,
        moved: Mapping[str, Moved],
        replayed: int,
        kept: int,
    ) -> int: ...

    # what a target asks
    @property
    def cursor(self) -> Any: ...
    def winners(self, batch: Batch) -> list[tuple[int, int]]: ...
    def contributed_rows(self, batch: Batch, target: str) -> int: ...
    def keep_target(self, target: str, schema: str, table: str) -> None: ...
    def keep_key(self, target: str, table: str, forms: Mapping[str, str]) -> None: ...


class Ledger(Protocol):
    """Where decisions are made, and looked up where a COMMIT had no answer."""

    def settling(self, region: str, name: str) -> AbstractContextManager[Settling]: ...
    def deciding(self, region: str, epoch: int, name: str) -> AbstractContextManager[Deciding]: ...
    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint: ...
    def unpublished_batches(self, region: str) -> tuple[Batch, ...]: ...
    def run_of(self, region: str, run_id: str) -> Run | None: ...
    def outcome(self, batch: Batch, contribution: Contribution) -> str | None: ...
    def find_settled(self, uuid: UUID, region: str) -> int | None: ...
    def reset_state(self, uuid: UUID, region: str) -> str | None: ...
    def replay_outcome(self, batch: Batch) -> Replayed | None: ...


class StagedRows(Protocol):
    """What is staged moves to where it becomes visible, inside the caller's transaction.

    Rows are told by the name of their target.
    """

    def count_staged(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> tuple[Rows, int]: ...
    def move_rows(
        self, transaction: Deciding, batch: Batch, room: int | None
    ) -> dict[str, Moved]: ...
    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int: ...


class PublishedRows(Protocol):
    """The rows that became visible, inside the caller's transaction."""

    def remove_rows(self, transaction: Deciding, after_seq: int) -> Rows: ...


class ReplayedRows(StagedRows, Protocol):
    """What a replay has staged moves as well."""

    def keep_dead_letters(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> int: ...


class MirrorWriter(Protocol):
    """The one mirror writer of a region that is not fenced."""

    def commit(self, offsets: Offsets, metadata: str, records: Iterable[OutputRecord] = ()) -> None:
        """Write all offsets, and the records of an output, in one Kafka transaction."""


class Group(Protocol):
    """The region's consumer group as the mirror sees it."""

    @property
    def output(self) -> Output | None:
        """The topic that its transactions write to as well; None: there is none."""

    def writer(self) -> AbstractContextManager[MirrorWriter]:
        """One that has fenced every earlier mirror writer, and serves nobody else meanwhile."""

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The group's offsets, transactions decided."""

    def sent(self, partitions: Iterable[TopicPartition]) -> set[Sent]:
        """What the metadata of these offsets name as sent, transactions decided."""
