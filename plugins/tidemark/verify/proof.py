"""The proof of batches: counts are compared, then what reading them again gives."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.errors import CorruptRecord, DataLost
from tidemark.ledger.looks import Looks, Published, PublishedSpan
from tidemark.model.batch import ONLY
from tidemark.model.facts import Facts
from tidemark.operations.held import missing
from tidemark.operations.region import Region
from tidemark.postgres.transaction import transaction
from tidemark.spark.errors import CutLetterNotWhole
from tidemark.verify.comparison import Comparison, with_found
from tidemark.verify.counts import counted, difference
from tidemark.verify.group import Begun, groups, joined
from tidemark.verify.places import are_in_place
from tidemark.verify.report import BatchProof, Difference, Kind
from tidemark.verify.whole import Whole


@dataclass(frozen=True, slots=True)
class Prover:
    """Proves the batches of a region."""

    comparison: Comparison
    facts: Facts
    whole: Whole

    @property
    def region(self) -> Region:
        """Whose batches they are."""
        return self.comparison.region

    def proofs(self, batches: Iterable[Published]) -> Iterator[BatchProof]:
        """Read the batches again and compare them; only count those whose records Kafka lacks.

        A batch that differs because a prune or a rewind removed it meanwhile is left out: that
        proves nothing.
        """
        looks = Looks(self.region.ledger.engine)
        for group in groups(map(self._begun, batches)):
            for proof in self._proven(group):
                if not proof.wrong or looks.is_restorable(self.region.name, proof.seq):
                    yield proof

    def _begun(self, published: Published) -> Begun:
        """The batch with what its counts say; needs no Kafka."""
        looks, seq = Looks(self.region.ledger.engine), published.seq
        if published.replayed is not None:
            return self._begun_replay(published, published.replayed)
        spans = looks.published_spans(self.region.name, seq)
        proof = BatchProof(seq, published.records, published.rows, published.dead_letters)
        proof = with_found(proof, *counted(published, spans), *self._rows_counted(published))
        proof = replace(proof, unverifiable=tuple(missing(spans, self.facts)))
        is_readable = bool(spans) and self.whole.is_comparable and not proof.unverifiable
        is_upsert = any(one.upsert for one in self.region.pipeline.all_targets.values())
        return Begun(proof, spans, is_readable, is_upsert, published.purged > 0)

    def _begun_replay(self, published: Published, replayed: int) -> Begun:
        """The same of a replay: what it read is in the ledger."""
        looks, seq = Looks(self.region.ledger.engine), published.seq
        spans = [
            PublishedSpan(span, "", 0, 0) for span in looks.replayed_spans(self.region.name, seq)
        ]
        proof = BatchProof(seq, published.records, published.rows, 0)
        proof = with_found(proof, *self._rows_counted(published))
        is_readable = self.whole.is_comparable
        return Begun(proof, spans, is_readable, replayed=replayed)

    def _rows_counted(self, published: Published) -> Iterator[Difference]:
        """Each target that has not as many rows of the batch as the ledger counted."""
        for target in self.comparison.targets:
            known = self.whole.rows[target.name].get(published.seq)
            if known is None:  # since it was chosen: what differs then proves nothing
                text = "the batch has been pruned or rewound"
                yield Difference(Kind.miscounted, "ledger", published.seq, "", text)
                continue
            there, counted = known
            who = f"{target}" if target.name != ONLY else "the target"
            yield from difference(published, "rows", counted, there, f"{who} has")

    def _proven(self, group: Sequence[Begun]) -> Iterator[BatchProof]:
        if len(group) == 1:
            yield self._alone(group[0])
        elif self._is_equal(group):
            yield from (one.proof for one in group)
        else:
            middle = len(group) // 2
            yield from self._proven(group[:middle])
            yield from self._proven(group[middle:])

    def _alone(self, one: Begun) -> BatchProof:
        if not one.is_readable:
            return one.proof
        if one.replayed is not None:
            try:
                return self.comparison.replay_compared(one, one.replayed)
            except CutLetterNotWhole as error:
                return replace(one.proof, unverifiable=(str(error),))
        try:
            return self.comparison.compared(one.proof, one.proof.seq, one.spans)
        except (CorruptRecord, DataLost) as error:  # Kafka lost them after `missing` was asked
            return replace(one.proof, unverifiable=(str(error),))

    def _is_equal(self, group: Sequence[Begun]) -> bool:
        """Whether reading the group by one job proves each of its batches equal, see group.py."""
        spans = [span for one in group for span in one.spans]
        has_transform = self.region.pipeline.transform is not None
        if has_transform and any(one.records != one.span.width for one in spans):
            return False
        if not self.comparison.executor().is_by_record():
            return False
        first, last = group[0].proof.seq, group[-1].proof.seq
        again = self.comparison.scratch.again(first, last, joined(spans))
        try:
            proof = self.comparison.compared(BatchProof(first, 0, 0, 0), last, joined(spans))
        except (CorruptRecord, DataLost):
            return False
        with transaction(self.region.ledger.engine, "verify") as cursor:
            return proof.verdict == "equal" and all(
                are_in_place(cursor, self.region.name, again, one, has_transform=has_transform)
                for one in self.comparison.targets
            )
