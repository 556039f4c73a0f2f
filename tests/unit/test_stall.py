"""How long a member waits beside a broker that comes and goes, or a lock that somebody holds."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.fakes import FakeGroup

from tidemark.errors import NoProgress, Unreachable
from tidemark.kafka.description import Holder, client_id_of
from tidemark.ledger.reader import Progress
from tidemark.model.batch import PlannedSpan
from tidemark.model.offsets import Span
from tidemark.runs._stall import EXCUSED, FOREIGN_SECONDS, LOCKED_SECONDS, StallDetector
from tidemark.runs.errors import RunStalled

SECONDS = 60

WAITING = PlannedSpan(Span("t", 0, 0, 10), "id")
"""What nobody has claimed."""


class Run:
    """A run that one member waits in, second by second, as its ledger and its group tell it."""

    def __init__(
        self,
        is_away: Callable[[int], bool],
        sending: Any = None,
        is_locked: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.now, self.claimed, self.sent, self.is_away = 0, 0, 0, is_away
        self.is_locked = is_locked
        self.holders: list[Holder] = []
        self.staged = 0
        self.sending = sending
        self.stall = StallDetector(self.run, lambda: self.now)

    @property
    def run(self) -> Any:
        """What the member knows of it."""
        ledger = SimpleNamespace(
            progress=lambda *_: Progress(1, 0, self.claimed, False, (), self.sent),
            staged_bytes=lambda *_: self.staged,
            is_being_decided=lambda *_: self.is_locked(self.now),
            unpublished_batches=lambda *_: (SimpleNamespace(seq=1, unclaimed=(WAITING,)),),
        )
        group = Distant(self)
        return SimpleNamespace(
            ledger=ledger,
            group=group,
            region="r",
            epoch=1,
            no_progress_seconds=SECONDS,
            sending=self.sending,
            in_flight=1,
            is_fenced=lambda: False,
        )

    def wait(
        self,
        until: int,
        claims_every: int = 0,
        sends_every: int = 0,
        stages_every: int = 0,
        *,
        asks: bool = False,
        is_contributing: bool = False,
    ) -> None:
        """The member waits; others may claim spans or send, and it may ask for a plan itself."""
        while self.now < until:
            self.now += 1
            self.claimed += bool(claims_every) and self.now % claims_every == 0
            self.sent += bool(sends_every) and self.now % sends_every == 0
            self.staged += bool(stages_every) and self.now % stages_every == 0
            if asks and self.is_away(self.now):
                self.stall.excuse()
            self.stall.progress(is_contributing=is_contributing)


class Distant(FakeGroup):
    """A group whose broker is away for a while."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def holders(self) -> list[Holder]:
        if self._run.is_away(self._run.now):
            raise Unreachable()
        return self._run.holders


def comes_and_goes(now: int) -> bool:
    """Away for 5 s of every 10."""
    return now % 10 < 5


def goes_between_questions(now: int) -> bool:
    """Every other question about the group has no answer."""
    return now // 3 % 2 == 1


@pytest.mark.parametrize("is_away", [comes_and_goes, goes_between_questions])
@pytest.mark.parametrize("asks", [False, True])
def test_a_broker_that_comes_and_goes_holds_no_run_for_ever(
    is_away: Callable[[int], bool], asks: bool
) -> None:
    """S25: an outage begins the wait anew, but it is no progress."""
    run = Run(is_away)
    with pytest.raises(NoProgress):
        run.wait(1000, asks=asks)
    assert 2 * SECONDS < run.now < 4 * SECONDS


@pytest.mark.parametrize("asks", [False, True])
def test_a_run_that_moves_between_outages_goes_on(asks: bool) -> None:
    Run(comes_and_goes).wait(1000, claims_every=SECONDS, asks=asks)


def test_the_wait_begins_anew_after_an_outage() -> None:
    """Who was evicted by it needs time to come back."""
    run = Run(lambda now: 30 <= now < 80)
    with pytest.raises(RunStalled) as stalled:
        run.wait(1000)
    assert SECONDS < stalled.value.seconds < SECONDS + 10
    assert 80 + SECONDS < run.now < 90 + SECONDS


def never(now: int) -> bool:
    """It is there all the time."""
    return False


def test_a_member_that_sends_holds_nobody_up() -> None:
    """B9: one batch after the other; and no transaction lasts longer than it may."""
    Run(never).wait(1000, sends_every=SECONDS)
    sending = SimpleNamespace(max_seconds=3 * SECONDS)
    Run(never, sending).wait(1000, sends_every=3 * SECONDS)
    stuck = Run(never, sending)
    with pytest.raises(NoProgress):
        stuck.wait(1000)
    assert 6 * SECONDS < stuck.now < 7 * SECONDS, "another one sends after the first one's time"


def test_who_holds_the_regions_lock_holds_nobody_up() -> None:
    """B18: a publish shows at its COMMIT alone, however long it takes."""
    long = 10 * SECONDS
    run = Run(never, is_locked=lambda now: now < long)
    with pytest.raises(RunStalled):
        run.wait(2 * long)
    assert long + SECONDS - FOREIGN_SECONDS < run.now < long + SECONDS + FOREIGN_SECONDS
    Run(never, is_locked=lambda now: now % long < long - 1).wait(3 * long, claims_every=long)


def test_a_lock_that_is_never_free_holds_no_run_for_ever() -> None:
    """S17: who waits for the lock itself gives up as late."""
    run = Run(never, is_locked=lambda _: True)
    with pytest.raises(RunStalled):
        run.wait(10_000)
    bound = EXCUSED * SECONDS + LOCKED_SECONDS
    assert bound < run.now < bound + SECONDS + FOREIGN_SECONDS


def test_a_job_that_stages_holds_nobody_up() -> None:
    """A batch of quick records may end in slow ones, and shows nothing before it is claimed."""
    run = Run(never)
    run.wait(100 * SECONDS, stages_every=SECONDS // 2)
    with pytest.raises(RunStalled):
        run.wait(200 * SECONDS)
    assert run.now < 100 * SECONDS + 2 * SECONDS, "it has staged, and stages no more"


def test_a_step_of_a_job_may_take_nearly_as_long_as_nothing_may_move() -> None:
    """A slow transform stages once in a block of records; its first step counts as well."""
    run, step = Run(never), SECONDS - 5
    for seconds_to_the_first in (step, 10):
        run.now += -run.now % step + step - seconds_to_the_first
        run.stall.renew()
        run.claimed += 1
        run.wait(run.now + 100 * SECONDS, stages_every=step)


@pytest.mark.parametrize("joined", [10, 40, SECONDS + 30])
def test_a_job_that_stages_after_a_member_has_joined_holds_nobody_up(joined: int) -> None:
    run = Run(never)
    run.wait(joined, stages_every=SECONDS // 3)
    run.holders = [Holder(client_id_of("r", 2), "here", (WAITING.span.topic_partition,))]
    run.wait(20 * SECONDS, stages_every=SECONDS // 3)


def test_what_is_staged_and_cut_off_again_and_again_is_no_progress() -> None:
    """Partitions go to and fro: each job leaves more in the table, and none claims a span."""
    run = Run(never)
    ours = [Holder(client_id_of("r", n), "here", (WAITING.span.topic_partition,)) for n in (1, 2)]

    def flap() -> None:
        for turn in range(100):
            run.holders = [ours[turn % 2]]
            run.wait(run.now + SECONDS // 2, stages_every=1)

    with pytest.raises(RunStalled):
        flap()
    assert SECONDS < run.now < 3 * SECONDS


def test_a_stranger_is_judged_beside_a_job_that_stages() -> None:
    run = Run(never)
    run.holders = [Holder("console", "elsewhere", (WAITING.span.topic_partition,))]
    with pytest.raises(RunStalled):
        run.wait(1000, stages_every=1)
    assert run.now < 2 * FOREIGN_SECONDS


def test_nobody_is_judged_while_ones_own_contribution_is_on_its_way() -> None:
    """Its claims show at COMMIT alone; a stranger that stands in the way is judged after it."""
    run = Run(never)
    run.holders = [Holder("console", "elsewhere", (WAITING.span.topic_partition,))]
    run.wait(100 * SECONDS, is_contributing=True)
    run.stall.renew()
    with pytest.raises(RunStalled):
        run.wait(200 * SECONDS)
    assert run.now < 100 * SECONDS + 2 * FOREIGN_SECONDS


def test_a_stranger_is_judged_once_the_lock_is_free() -> None:
    run = Run(never, is_locked=lambda now: now < SECONDS)
    run.holders = [Holder("console", "elsewhere", (WAITING.span.topic_partition,))]
    with pytest.raises(RunStalled):
        run.wait(1000)
    assert SECONDS < run.now < SECONDS + 2 * FOREIGN_SECONDS
