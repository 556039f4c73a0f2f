"""What Kafka says to a member: an outage is waited out."""

from collections.abc import Callable
from typing import TypeVar

from tidemark.member.member_run import MemberRun
from tidemark.member.outage import Outage, waited_out
from tidemark.member.stall import StallDetector
from tidemark.model.batch import Batch
from tidemark.model.facts import Facts, check_topic_ids

T = TypeVar("T")


class KafkaFacts:
    """Asked for anew each time.

    Raises:
        Unreachable: the outage lasts longer than no_progress_seconds.
        Fenced: the epoch has passed meanwhile.
    """

    def __init__(self, run: MemberRun, stall: StallDetector) -> None:
        self._run = run
        self._stall = stall

    def now(self) -> Facts:
        """Facts of the run's topics."""
        return self._asked(lambda: self._run.broker.facts(self._run.topics))

    def check_topics(self, batch: Batch) -> None:
        """The batch's topics are those that it was planned on.

        Raises:
            DataLost: a topic is gone or was created again.
        """
        planned = {(one.span.topic, one.topic_id) for one in batch.spans}
        found = self._asked(lambda: self._run.broker.topic_ids(sorted({t for t, _ in planned})))
        check_topic_ids(batch.region, planned, found)

    def _asked(self, ask: Callable[[], T]) -> T:
        outage = Outage(self._run.pipeline.no_progress_seconds)
        return waited_out(ask, outage, self._bear_outage)

    def _bear_outage(self) -> None:
        """An outage is nobody's lack of progress; but who is fenced needs not wait for its end."""
        self._stall.excuse()
        if self._run.is_fenced():
            raise self._run.fenced()
