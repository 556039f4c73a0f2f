"""Which records a table must hold, and which it may hold: as its tool, or a person, says."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidemark.kafka.facts import Broker
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span
from tidemark.verify._table import Range, Ranges
from tidemark.verify.errors import TopicsMadeAgain


def offsets_of(broker: Broker, facts: Facts, given: datetime | Offsets) -> Offsets:
    """The first offsets at or after a time, or those that are given."""
    if isinstance(given, datetime):
        return broker.offsets_at([*facts.ends], int(given.timestamp() * 1000))
    return given


def facts_after(broker: Broker, before: Facts) -> Facts:
    """What Kafka has now, after the table's snapshot was taken: no row is of a later record.

    Raises:
        Refused: the topics are others than before.
    """
    after = broker.facts([*before.topic_ids])
    if again := tuple(
        topic for topic, own in before.topic_ids.items() if after.topic_ids[topic] != own
    ):
        raise TopicsMadeAgain(topics=again)
    return after


@dataclass(frozen=True, slots=True)
class Judged:
    """What is judged of each partition, and what can't be told of it."""

    ranges: Ranges
    unverifiable: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def spans(self) -> list[Span]:
        """What is read."""
        return [Span(*tp, one.start, one.end) for tp, one in self.ranges.items()
                if one.start < one.end]  # fmt: skip

    @property
    def are_whole(self) -> bool:
        """Whether each row of the table may be of a record that is read."""
        return not any(one.start or one.is_cut for one in self.ranges.values())


def bounds_of(
    facts: Facts, high: Offsets, until: Offsets, since: Offsets, *, is_cut: bool
) -> Judged:
    """Of each partition; `is_cut`: nothing behind `until` is looked at."""
    ranges = {}
    for tp, end in sorted(facts.ends.items()):
        start = min(max(facts.log_starts[tp], since.get(tp, 0)), end)
        bound = min(max(until.get(tp, start), start), end)
        is_open = high[tp] > end
        ranges[tp] = Range(start, bound, bound if is_cut else end, is_cut or is_open)
    return Judged(
        ranges,
        tuple(_untold(facts, high, until, since)),
        tuple(_notes(facts, high, until, since)),
    )


def _untold(facts: Facts, high: Offsets, until: Offsets, since: Offsets) -> Iterator[str]:
    for tp, start in sorted(facts.log_starts.items()):
        bound = until.get(tp, start)
        if bound > high[tp]:
            yield (
                f"{tp}: the table is said to be filled up to {bound}, and the log ends at"
                f" {high[tp]}: it was truncated, or the topic made again. Its rows may be of"
                " records that are gone"
            )
        if since.get(tp, 0) < start and bound < start:
            yield f"{tp}@[{bound}, {start}): Kafka no longer holds what comes after the bound"
        elif since.get(tp, 0) < start:
            yield f"{tp}: records below {start} are gone from Kafka; their rows are not compared"


def _notes(facts: Facts, high: Offsets, until: Offsets, since: Offsets) -> Iterator[str]:
    for tp, end in sorted(facts.ends.items()):
        if tp not in until and end > facts.log_starts[tp]:
            yield f"{tp}: nothing says up to where the table has it, so no row of it must be there"
        if high[tp] > end:
            yield (
                f"{tp}: transactions are open from {end} on; rows of later records are not"
                " committed, or not yet to be seen"
            )
    for tp in sorted(until.keys() - facts.ends.keys()):
        yield f"{tp}: the pipeline reads no such partition"
