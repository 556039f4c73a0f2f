"""The plan of a rewind: where each partition goes back to, and whether it can be read again."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tidemark.model.batch import Removal
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.output import Topics
from tidemark.model.overrides import ACCEPT_DATA_LOSS, ACCEPT_RESEND
from tidemark.model.state import RegionState
from tidemark.protocol.errors import (
    RemovalDiffers,
    RewindNotReadable,
    RewindOfLeftTopics,
    RewindOfSentBatches,
    RewindPlaceUnknown,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A partition at a checkpoint: where a rewind would put it."""

    topic_id: str
    offset: int
    """The next offset to read after the rewind."""
    next_offset: int
    """Where it stands now."""
    records: int = 0
    """That were read between the two, as far as the ledger has their spans."""
    is_read: bool = True
    """Whether the newest run reads its topic."""


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """What a rewind to a checkpoint would remove."""

    to_seq: int
    is_checkpoint: bool
    batches: int
    dead_letters: int
    """Those that are there."""
    beyond: list[str]
    """Partitions with rows after the checkpoint where a later run went on without lost or corrupt
    offsets."""
    places: dict[TopicPartition, Place]
    published: Removal
    """What the ledger published after the checkpoint."""
    replays: int = 0
    """Replays of dead letters that are there."""

    def refuse(
        self, state: RegionState, facts: Facts, sent_to: Topics, overrides: Collection[str]
    ) -> None:
        """Refuse what can't be undone or read again, and what a person would have to accept.

        Raises:
            Refused: see `refuse_unreadable`; or batches were sent to a topic, or nobody would read
                the records of a topic again, and no override accepts that.
        """
        self.refuse_unreadable(state, facts)
        self._refuse_sent(state.region, sent_to, overrides)
        self._refuse_left(state.region, facts.unsubscribed, overrides)

    def refuse_unreadable(self, state: RegionState, facts: Facts) -> None:
        """Refuse what can't be undone or read again, whatever a person accepts.

        Raises:
            Refused: there is no such checkpoint, or Kafka no longer holds what would be read again.
        """
        if not self.is_checkpoint or 0 < self.to_seq < state.oldest_seq:
            raise RewindPlaceUnknown(
                region=state.region,
                to_seq=self.to_seq,
                oldest_seq=state.oldest_seq,
                head_seq=state.head_seq,
            )
        ended, not_held = tuple(self.beyond), tuple(self._not_held(facts))
        if ended or not_held:
            raise RewindNotReadable(
                region=state.region, to_seq=self.to_seq, ended=ended, not_held=not_held
            )

    def left(self, unsubscribed: Collection[str]) -> dict[Span, int]:
        """What would be taken back, and read again by nobody; with the records that it held.

        Of topics that the newest run does not read, or the pipeline does not by now.
        """
        return {
            Span(*tp, place.offset, place.next_offset): place.records
            for tp, place in sorted(self.places.items())
            if place.offset < place.next_offset and (not place.is_read or tp.topic in unsubscribed)
        }

    def _refuse_sent(self, region: str, sent_to: Topics, overrides: Collection[str]) -> None:
        if sent_to.names and self.batches and ACCEPT_RESEND not in overrides:
            raise RewindOfSentBatches(region=region, batches=self.batches, topics=sent_to)

    def _refuse_left(
        self, region: str, unsubscribed: Collection[str], overrides: Collection[str]
    ) -> None:
        if (left := self.left(unsubscribed)) and ACCEPT_DATA_LOSS not in overrides:
            raise RewindOfLeftTopics(region=region, to_seq=self.to_seq, left=left)

    @property
    def offsets(self) -> Offsets:
        """The merged checkpoint that the rewind restores."""
        return {tp: place.offset for tp, place in self.places.items()}

    def margins(self, facts: Facts) -> dict[TopicPartition, int]:
        """Offsets between Kafka's log start and where reading would begin again.

        Without partitions that Kafka no longer has.
        """
        starts = facts.log_starts
        return {tp: p.offset - starts[tp] for tp, p in self.places.items() if tp in starts}

    def _not_held(self, facts: Facts) -> Iterator[TopicPartition | Span]:
        for tp, place in sorted(self.places.items()):
            if place.offset == place.next_offset:
                continue  # nothing of it is read again
            if facts.topic_ids.get(tp.topic) != place.topic_id or tp not in facts.ends:
                yield tp
            elif place.offset < (start := facts.log_starts[tp]):
                yield Span(*tp, place.offset, start)


def refuse_other_removal(region: str, published: Removal, found: Removal) -> None:
    """Refuse to remove anything but exactly what was published, of each target.

    Raises:
        Refused: rows or dead letters are missing, or there are more; with the numbers.
    """
    if not found.is_same(published):
        raise RemovalDiffers(region=region, published=published, found=found)
