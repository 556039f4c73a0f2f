"""What a member of a run can meet: its epoch has passed, or nobody goes on."""

from tidemark.errors import Fenced, NoProgress
from tidemark.kafka.description import Holder
from tidemark.model.offsets import Span, spans_in_ranges


class MemberFenced(Fenced):
    """The epoch of a member at work has passed."""

    region: str
    epoch: int

    def __str__(self) -> str:
        return (
            f"region {self.region}: epoch {self.epoch} has passed, another run or a reset took"
            " over; the job was cancelled, and nothing of it became visible"
        )


class RunStalled(NoProgress):
    """Spans of a run wait, and nothing was planned or claimed for too long."""

    region: str
    epoch: int
    seq: int | None
    """The batch of which no span was claimed; None: no batch was planned."""
    seconds: float
    spans: tuple[Span, ...]
    group: str
    holders: tuple[Holder, ...]
    """Who holds the partitions of the spans, and is in the way."""

    def __str__(self) -> str:
        is_planned = self.seq is not None
        what = f"batch {self.seq}: no span was claimed" if is_planned else "no batch was planned"
        return (
            f"region {self.region}, epoch {self.epoch}, {what} for {self.seconds:.0f} s. Waiting:"
            f" {spans_in_ranges(self.spans)}. In group {self.group} they are held by:"
            f" {'; '.join(map(str, self.holders)) or 'nobody'}. Stop foreign consumers of this"
            " group, or give the region a group of its own. If a member of the run holds them, look"
            " at its job; if it is only slow, raise no_progress_seconds"
        )
