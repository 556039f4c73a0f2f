"""A region in the fake ledger, driven as the desk drives one in the real ledger."""

from collections.abc import Sequence

from tests.support.fake_ledger import FakeLedger, FakeTarget
from tests.support.fake_tables import CLUSTER, REGION, TARGET, TOPIC, TOPIC_ID, Tables, offsets_of
from tests.support.fakes import FakeGroup

from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span
from tidemark.model.plan import Bounds
from tidemark.protocol.close import Closed, close
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.publish import Outcome, contribute_and_publish, publish_complete
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import Settled, settle


class FakeDesk:
    """One region of two partitions: its ledger and target in memory, and a made-up log."""

    region = REGION

    def __init__(self) -> None:
        self.ledger = FakeLedger(Tables((0, 0)))
        self.target = FakeTarget()
        self.group = FakeGroup()
        self.ends = [0, 0]
        self._members = 0

    @property
    def facts(self) -> Facts:
        ends = offsets_of(self.ends)
        return Facts(CLUSTER, {TOPIC: TOPIC_ID}, dict.fromkeys(ends, 0), ends)

    @property
    def epoch(self) -> int:
        return self.ledger.tables.epoch

    def grow(self, count: int, partition: int = 0) -> None:
        self.ends[partition] += count

    def open(self, run_id: str, bounds: Bounds) -> Settled:
        request = OpenRequest(run_id, bounds, self.facts, self.epoch, {ONLY: TARGET})
        return settle(self.ledger, self.group, self.region, request)

    def reset(self) -> Settled:
        return settle(self.ledger, self.group, self.region, ResetRequest("test", "a test"))

    def close(self, run_id: str) -> Closed:
        return close(self.ledger, self.group, self.region, run_id)

    def join(self, epoch: int) -> int:
        self._members += 1
        return self._members

    def plan_next(self, epoch: int) -> tuple[Batch, ...]:
        return plan_batch(self.ledger, self.region, epoch, self.facts)

    def stage(
        self, batch: Batch, member: int, attempt: int = 0, spans: Sequence[Span] | None = None
    ) -> Contribution:
        spans = [p.span for p in batch.spans] if spans is None else spans
        known = self.ledger.tables
        rows = {(batch.seq, member, attempt, span) for span in spans}
        self.ledger.tables = known._replace(staged=known.staged | rows)
        reads = tuple(SpanRead(span, member, attempt, span.width, 0) for span in spans)
        staged = {ONLY: sum(s.width for s in spans)}
        return Contribution(member, reads, (Attempt(member, attempt, staged),))

    def publish(self, batch: Batch, contribution: Contribution) -> Outcome:
        return contribute_and_publish(self.ledger, self.target, batch, contribution)

    def publish_complete(self, epoch: int) -> Outcome | None:
        return publish_complete(self.ledger, self.target, self.region, epoch)

    def lose_staging(self) -> None:
        self.ledger.tables = self.ledger.tables._replace(staged=frozenset())

    def offsets(self) -> Offsets:
        return offsets_of(self.ledger.tables.offsets)

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of every row of the target, in order."""
        spans = [span for _, span in self.ledger.tables.rows]
        return sorted((s.partition, offset) for s in spans for offset in range(s.start, s.end))

    def expected_rows(self) -> list[tuple[int, int]]:
        """The rows of [0, next) of every partition, each once."""
        ends = sorted(self.offsets().items())
        return [(one.partition, offset) for one, end in ends for offset in range(end)]
