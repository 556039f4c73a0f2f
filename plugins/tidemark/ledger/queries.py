"""Queries: reads and counts for people, metrics, lineage and `verify`.

They take no lock, and no decision uses them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidemark.ledger import kept_dead_letters
from tidemark.ledger.kept_dead_letters import ALL_DEAD_LETTERS, KeptDeadLetter
from tidemark.ledger.reader import Lookup
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.offsets import Span, TopicPartition


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint with the ledger's counts."""

    seq: int
    epoch: int
    records: int
    rows: int
    dead_letters: int
    planned_at: datetime
    published_at: datetime
    spans: int
    refused: int
    """The dead letters among them whose rows the target refused."""
    purged: int = 0
    """The dead letters among them that a person has purged."""
    replayed: int | None = None
    """Of a replay, how many of its records, dead letters of batches before it, became rows."""
    sized_by: str | None = None
    """What kept it from being larger: backlog, seconds, growth, max_records, max_bytes, slow_start.
    None, like what follows, for a replay and where an older version wrote it."""
    drain_seconds: float | None = None
    """Of the member that took longest."""
    publish_seconds: float | None = None
    """For which its publish held the region's lock."""


@dataclass(frozen=True, slots=True)
class PublishedSpan:
    """A span of a checkpoint, with its topic's id and its counts."""

    span: Span
    topic_id: str
    records: int
    dead_letters: int
    is_ended: bool = False
    """A person has since accepted a loss in this log: other records may have these offsets now."""


@dataclass(frozen=True, slots=True)
class SpanInTime:
    """A span of a checkpoint, with when that was published."""

    seq: int
    published_at: datetime
    published: PublishedSpan


@dataclass(frozen=True, slots=True)
class PublishedCounts:
    """How many batches, and how many rows and dead letters they hold."""

    batches: int
    rows: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class BrokenChain:
    """A gap or an overlap: batch `seq` begins at `found`, the spans before it end at `expected`.

    `seq` is None if the last span does not end at the ledger's next offset, which is `found`.
    """

    partition: TopicPartition
    seq: int | None
    expected: int
    found: int

    def __str__(self) -> str:
        what = "gap" if self.found > self.expected else "overlap"
        if self.seq is None:
            return (
                f"{self.partition}: the spans end at {self.expected}, the ledger's next offset is"
                f" {self.found}"
            )
        return (
            f"{self.partition}: {what} before batch {self.seq}: it begins at {self.found}, the"
            f" spans before it end at {self.expected}"
        )


@dataclass(frozen=True, slots=True)
class ShownMember:
    """A member's last report to the ledger; for display only."""

    number: int
    name: str
    state: str
    partitions: list[str]
    drain_ms: int | None
    drain_ms_max: int | None
    joined_at: datetime
    seen_at: datetime
    """When state, partitions or drain time last changed."""
    age: float
    """Seconds since then."""


@dataclass(frozen=True, slots=True)
class KnownRegion:
    """A region that the ledger knows, as `tidemark.region_status` shows it."""

    region: str
    state: str
    epoch: int
    head_seq: int
    lag: int | None
    last_checkpoint_at: datetime | None
    dead_letters: int
    group: str
    target: str


@dataclass(frozen=True, slots=True)
class Completeness:
    """Up to when every record that a consumer could see is in the targets, or a dead letter."""

    region: str
    complete_at: datetime | None
    """By the database's clock, before Kafka was asked. None: it never was complete, or the run that
    would tell is pruned."""
    epoch: int | None
    """Of the run that asked."""
    seq: int
    """The newest checkpoint, which is at least as new."""
    dead_letters: int
    """Records of these checkpoints that are no rows."""
    transactions_were_open: bool
    """Then: what they held came later, by right."""
    accepted: Sequence[str]
    """What a person accepted as lost before that time: spans, and deletions of partitions."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a person did to a region besides resets."""

    at: datetime
    region: str
    kind: str
    requested_by: str
    why: str
    details: dict[str, Any]
    database_user: str
    """The role that was logged in to Postgres."""


class LedgerQueries(Lookup):
    """Reads of one ledger through an engine."""

    def regions(self) -> list[KnownRegion]:
        """Every region of the ledger."""
        return [KnownRegion(*row) for row in self._rows("regions")]

    def completeness(self, regions: Sequence[str]) -> dict[str, Completeness]:
        """Of each of these regions that the ledger knows; of none where there is no ledger yet."""
        if not self.ledger_is_there():
            return {}
        rows = self._rows("completeness", regions=list(regions))
        return {one[0]: Completeness(*one) for one in rows}

    def actions(self, region: str | None, limit: int) -> list[Action]:
        """What people did besides resets, newest first; to one region, or to all."""
        return [Action(*row) for row in self._rows("actions", region=region, limit=limit)]

    def was_dropped(self, region: str) -> bool:
        """Whether a person dropped a region of this name."""
        return bool(self._rows("was_dropped", region=region)[0][0])

    def checkpoints(self, region: str, last: int | None = None) -> list[Published]:
        """The region's checkpoints, newest first; all of them or the last ones."""
        rows = self._rows("checkpoints", region=region, last=last)
        return [Published(*row) for row in rows]

    def retained_rows(self, region: str) -> dict[str, int]:
        """Rows that were moved to each target, over the checkpoints that can be restored."""
        return dict(self._rows("retained_rows", region=region))

    def counted_after(self, region: str, seq: int) -> PublishedCounts:
        """Count the published batches after a seq, their rows and their dead letters."""
        return PublishedCounts(*self._rows("counted_after", region=region, seq=seq)[0])

    def is_restorable(self, region: str, seq: int) -> bool:
        """Whether a checkpoint is still published and retained: neither rewound nor pruned."""
        return bool(self._rows("is_restorable", region=region, seq=seq)[0][0])

    def newest_end(self, region: str) -> datetime | None:
        """When the newest run or reset that is over ended; None: there was none."""
        found: datetime | None = self._rows("newest_end", region=region)[0][0]
        return found

    def longest_pause(self, region: str) -> timedelta | None:
        """The longest time between two opens of the retained runs, or since the newest."""
        found: timedelta | None = self._rows("longest_pause", region=region)[0][0]
        return found

    def head_and_newest(self, region: str) -> tuple[int, int]:
        """The seqs of the head and of the newest published batch (0: none), in one snapshot."""
        head, newest = self._rows("head_and_newest", region=region)[0]
        return head, newest

    def published_spans(self, region: str, seq: int) -> list[PublishedSpan]:
        """The spans of a checkpoint."""
        rows = self._rows("published_spans", region=region, seq=seq)
        return [PublishedSpan(Span(*row[:4]), *row[4:]) for row in rows]

    def spans_since(self, region: str, since: datetime) -> list[SpanInTime]:
        """The spans of checkpoints that were published at a time or later, by seq."""
        rows = self._rows("spans_since", region=region, since=since)
        return [
            SpanInTime(row[0], row[1], PublishedSpan(Span(*row[2:6]), *row[6:])) for row in rows
        ]

    def replayed_spans(self, region: str, seq: int) -> list[Span]:
        """The spans that the dead letters of a published replay lie in."""
        return [Span(*row) for row in self._rows("replayed_spans", region=region, seq=seq)]

    def set_aside_of(self, region: str, first: int, last: int) -> frozenset[tuple[str, int, int]]:
        """Topic, partition and offset of the batches' dead letters that may be rows by now."""
        rows = self._rows("set_aside_of", region=region, first=first, last=last)
        return frozenset((topic, number, offset) for topic, number, offset in rows)

    def now(self) -> datetime:
        """The server's time: with it the age of a time in the ledger is computed."""
        found: datetime = self._rows("now")[0][0]
        return found

    def members_at(self, region: str, epoch: int) -> list[ShownMember]:
        """The members that joined under an epoch, in the order of joining."""
        return [ShownMember(*row) for row in self._rows("members_at", region=region, epoch=epoch)]

    def skipped_spans(self, region: str) -> list[tuple[Span, int]]:
        """The spans that a person accepted as lost, each with the epoch that skipped it."""
        return [(Span(*row[:4]), row[4]) for row in self._rows("skipped_spans", region=region)]

    def broken_chains(self, region: str) -> list[BrokenChain]:
        """Gaps and overlaps of the spans between initial and next offset; there should be none."""
        rows = self._rows("broken_chains", region=region)
        return [BrokenChain(TopicPartition(row[0], row[1]), *row[2:]) for row in rows]

    def dead_letter_reasons(self, region: str) -> list[str]:
        """The reasons that the region's dead letters have."""
        return [reason for (reason,) in self._rows("dead_letter_reasons", region=region)]

    def open_dead_letters(self, region: str) -> int:
        """How many dead letters are there, neither purged nor replayed."""
        return int(self._rows("open_dead_letters", region=region)[0][0])

    def dead_letters(
        self, region: str, limit: int | None = None, meant: DeadLetterFilter = ALL_DEAD_LETTERS
    ) -> list[KeptDeadLetter]:
        """Dead letters, newest batch first."""
        values = kept_dead_letters.of_filter(meant)
        rows = self._rows("dead_letters", region=region, limit=limit, **values)
        return [kept_dead_letters.kept(row) for row in rows]


WINDOW_SECONDS = 24 * 3600
"""Batches, runs and drivers of the last day are counted: pruning may take older ones."""

MOST_BATCHES = 1000
"""Of these so many, the newest: a scrape's cost is bounded."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Of one batch, in seconds."""

    batch: float
    """From its plan to its publish."""
    drain: float
    """From its plan to its last contribution."""
    publish: float
    """From that to its publish."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Records behind the last stable offset, since an earlier run opened."""

    offsets: int
    since: datetime | None
    """None if there are none."""


class Measured(Lookup):
    """Counts for metrics and lineage: of the last day, and of one epoch."""

    def durations(self, region: str) -> Sequence[Durations]:
        """Of the last day's checkpoints, the newest ones."""
        rows = self._rows("durations", region=region, seconds=WINDOW_SECONDS, most=MOST_BATCHES)
        return [Durations(*row) for row in rows]

    def recent_runs(self, region: str) -> dict[str, int]:
        """How many runs the last day opened, by state."""
        return dict(self._rows("recent_runs", region=region, seconds=WINDOW_SECONDS))

    def recent_retries(self, region: str) -> int:
        """Drivers of the last day that joined a run in place of an earlier one."""
        return int(self._rows("recent_retries", region=region, seconds=WINDOW_SECONDS)[0][0])

    def published_rows(self, region: str, epoch: int) -> dict[str, int]:
        """Rows that an epoch has published, by target."""
        return dict(self._rows("published_rows", region=region, epoch=epoch))

    def published_records(self, region: str, epoch: int) -> dict[str, int]:
        """Records that an epoch's checkpoints are made of, by topic."""
        return dict(self._rows("published_records", region=region, epoch=epoch))

    def hidden(self, region: str) -> Hidden:
        """What an open transaction hides for longer than a run."""
        rows = self._rows("hidden", region=region)
        return Hidden(*rows[0]) if rows else Hidden(0, None)
