"""How long a member waits for the others, and for Kafka's facts: bounded, by one clock.

The ledger shows what counts as progress; an outage of Kafka is waited out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidemark.deadline import Clock
from tidemark.errors import Unreachable
from tidemark.kafka.description import Holder
from tidemark.ledger.reader import Progress
from tidemark.model.batch import Batch
from tidemark.model.facts import Facts, refuse_other_topics
from tidemark.model.offsets import Span
from tidemark.postgres.transaction import TIMEOUTS_MS
from tidemark.runs._member_run import MemberRun
from tidemark.runs.errors import RunStalled
from tidemark.runs.outage import Outage, waited_out

T = TypeVar("T")


class Patience:
    """A wait, by a clock.

    Progress restarts it. An excuse restarts it too, but only within a bounded time after the last
    progress: a broker that comes and goes must not hold a run for ever.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: object = self
        self._moved = self._since = clock()

    @property
    def waited(self) -> float:
        """Seconds since the last progress or excuse."""
        return self._clock() - self._since

    def observe(self, at: object) -> None:
        """Take how far the work is now; where that differs from before, it is progress."""
        if at != self._seen:
            self._seen = at
            self.renew()

    def renew(self) -> None:
        """There was progress."""
        self._moved = self._since = self._clock()

    def excuse(self, within: float) -> bool:
        """Restart the wait: nobody could make progress. False `within` seconds after the last."""
        now = self._clock()
        is_excused = now - self._moved < within
        if is_excused:
            self._since = now
        return is_excused


FOREIGN_SECONDS = 15.0
"""How long a run waits for spans that a consumer outside the region holds: it never drains them."""

JUDGE_PAUSE = 2.0
"""Between two questions to Kafka about who holds what."""

EXCUSED = 2
"""After this many times no_progress_seconds without progress, an outage or a rebalance no longer
extends the wait: brokers and members that come and go must not hold a run for ever."""

LOCKED_SECONDS = TIMEOUTS_MS["lock_timeout"] / 1000
"""Added to that while somebody holds the region's lock: whoever waits for the lock gives up by
then."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The batch of which no span was claimed, None where none was planned; and what waits."""

    seq: int | None
    spans: tuple[Span, ...]


@dataclass(slots=True)
class _Look:
    """How far the run is, who holds what waits for a claim, and how much is staged of it."""

    progress: Progress
    holders: tuple[str, ...]
    since: float
    """When these holders were first seen, by the detector's clock."""
    staged_bytes: int


class StallDetector:
    """How long nothing has moved in a run, and what to say when that is too long.

    Progress is what the ledger shows: a plan, a claim, a publish, a batch that was sent; and what a
    job has staged since the last look, for a batch may be large and its transform slow. An outage
    of Kafka, a job that a rebalance ended and a transaction that decides are excuses, see
    `Patience`. The claims of a publish show at its COMMIT alone, which may come late. To the member
    itself its job's end is progress, and the end of its publish and mirror.
    """

    def __init__(self, run: MemberRun, clock: Clock) -> None:
        self._clock = clock
        self._ledger = run.ledger
        self._group = run.group
        self._region = run.region
        self._epoch = run.epoch
        self._seconds = run.no_progress_seconds
        # While a member sends, the others see nothing move until its transaction ends; if it never
        # does, the next one begins its own then.
        self._bound = max(self._seconds, 2 * run.sending.max_seconds if run.sending else 0)
        self._foreign_seconds = min(self._seconds, FOREIGN_SECONDS)
        self._patience = Patience(clock)
        self._judged = clock()
        self._look: _Look | None = None
        self._outage = Outage(self._seconds, clock)

    def renew(self) -> None:
        self._patience.renew()

    def excuse(self) -> bool:
        """Kafka was away, or a rebalance ended the job; whether the wait begins anew for that."""
        return self._patience.excuse(EXCUSED * self._seconds)

    def progress(self, *, is_contributing: bool = False) -> Progress:
        """How far the run is; after a change the wait begins anew.

        A member that `is_contributing` judges nobody: what would move the run is its own, and ends
        by the time-outs of its transaction. It was asked before the ledger is.

        Raises:
            NoProgress: nothing has changed for too long; names the spans and who holds them.
            Unreachable: for as long, Kafka did not say who holds them.
        """
        progress = self._ledger.progress(self._region, self._epoch)
        self._patience.observe(progress)
        now, waited = self._clock(), self._patience.waited
        # The first look is early: what is staged is compared with it, and a step may take long.
        is_first = self._look_at(progress) is None
        is_long = waited > (JUDGE_PAUSE if is_first else self._foreign_seconds)
        if is_long and not is_contributing and now > self._judged + JUDGE_PAUSE:
            self._judged = now
            self._judge(progress, waited)
        return progress

    def _judge(self, progress: Progress, waited: float) -> None:
        if progress.is_done or progress.epoch != self._epoch or self._is_being_decided():
            return
        waiting = self._waiting()
        partitions = {span.topic_partition for span in waiting.spans}
        holders = self._holders()
        if holders is None:
            return
        in_the_way = [one for one in holders if partitions & set(one.partitions)]
        strangers = [one for one in in_the_way if not self._is_ours(one)]
        is_staging = self._is_staging(progress, tuple(map(str, in_the_way)))
        is_theirs = bool(strangers) and waited > self._foreign_seconds
        is_too_long = is_theirs or (waited > self._bound and not is_staging)
        if is_too_long and progress == self._ledger.progress(self._region, self._epoch):
            raise RunStalled(
                region=self._region,
                epoch=self._epoch,
                seq=waiting.seq,
                seconds=waited,
                spans=waiting.spans,
                group=self._group.group_id,
                holders=tuple(strangers or in_the_way),
            )

    def _is_staging(self, progress: Progress, holders: tuple[str, ...]) -> bool:
        """Whether more is staged than at the last look, so that the wait has begun anew.

        The first look tells nothing. What the same holders stage for no_progress_seconds is
        progress. What others staged meanwhile is an excuse: a rebalance leaves in the table what
        it cut off, and partitions that go to and fro must not hold a run for ever. It is asked
        while nobody has the region's lock: what drops a table has it, or waits briefly.
        """
        staged = self._ledger.staged_bytes(self._region, progress.unpublished_seqs)
        last, before, now = self._look, self._look_at(progress), self._clock()
        since = last.since if last is not None and last.holders == holders else now
        self._look = _Look(progress, holders, since, staged)
        if before is None or staged <= before.staged_bytes:
            return False
        if now - since < self._seconds:
            return self.excuse()
        self.renew()
        return True

    def _look_at(self, progress: Progress) -> _Look | None:
        """The last look, where the run was as far then as it is now."""
        look = self._look
        return look if look is not None and look.progress == progress else None

    def _is_being_decided(self) -> bool:
        """Somebody has the region's lock and works: nobody else can move meanwhile."""
        is_held = self._ledger.is_being_decided(self._region)
        return is_held and self._patience.excuse(EXCUSED * self._seconds + LOCKED_SECONDS)

    def _holders(self) -> list[Holder] | None:
        """Who holds what; None while Kafka is away, and when it has just come back.

        Nobody can move in an outage, and who was evicted by it needs time to come back.
        """
        try:
            found = self._group.holders()
        except Unreachable as error:
            self._outage.bear(error)
            return None
        if self._outage.end() and self.excuse():
            return None
        return found

    def _waiting(self) -> Waiting:
        """The unclaimed spans of the lowest batch; without one, what the run has yet to plan."""
        for batch in self._ledger.unpublished_batches(self._region)[:1]:
            spans = tuple(planned.span for planned in batch.unclaimed)
            return Waiting(batch.seq, spans)
        targets = self._ledger.target_offsets(self._region, self._epoch)
        known = self._ledger.merged_checkpoint(self._region).offsets
        left = (
            Span(*partition, known[partition], target)
            for partition, target in sorted(targets.items())
            if known.get(partition, target) < target
        )
        return Waiting(None, tuple(left))

    def _is_ours(self, holder: Holder) -> bool:
        """Whether it is a member of the region, of this run or of one before.

        One that was killed stays in the group until its session ends. Kafka keeps a static
        member's first client id: its name tells that it is ours.
        """
        return holder.number(self._region) is not None or holder.is_static(self._group.group_id)


class KafkaFacts:
    """Asked for anew each time.

    Raises:
        Unreachable: the outage lasts longer than no_progress_seconds.
        Fenced: the epoch has passed meanwhile.
    """

    def __init__(self, run: MemberRun, stall: StallDetector, clock: Clock) -> None:
        self._run = run
        self._stall = stall
        self._clock = clock

    def now(self) -> Facts:
        return self._asked(lambda: self._run.broker.facts(self._run.topics))

    def check_topics(self, batch: Batch) -> None:
        """The batch's topics are those that it was planned on.

        Raises:
            DataLost: a topic is gone or was created again.
        """
        planned = {(one.span.topic, one.topic_id) for one in batch.spans}
        found = self._asked(lambda: self._run.broker.topic_ids(sorted({t for t, _ in planned})))
        refuse_other_topics(batch.region, planned, found)

    def _asked(self, ask: Callable[[], T]) -> T:
        outage = Outage(self._run.no_progress_seconds, self._clock)
        return waited_out(ask, outage, self._bear_outage)

    def _bear_outage(self) -> None:
        """An outage is nobody's lack of progress; but who is fenced needs not wait for its end."""
        self._stall.excuse()
        if self._run.is_fenced():
            raise self._run.fenced()
