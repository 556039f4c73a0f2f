"""Asks all the while, whatever fails: no answer is no finding, a wrong one is."""

from collections.abc import Iterator, Sequence
from random import Random
from threading import Event

from tests.torture.journal import Journal
from tests.torture.regions import AWAY, TorturedRegion
from tests.torture.tally import Tally

from tidemark.errors import Unreachable
from tidemark.kafka.group import Group
from tidemark.model.offsets import TopicPartition

RECENT = 4
"""Batches that are counted at each look."""
NEWEST = 3000
"""Acknowledged records of a partition that are looked up at each look."""

HAS_TABLE = "SELECT 1 WHERE to_regclass(%s) IS NOT NULL"
"""The first batch makes it."""
KNOWN = "SELECT topic, partition FROM tidemark.partitions WHERE ended_epoch IS NULL"
EVER = """
SELECT greatest(max(p.next_offset),
                max(s.end_offset) FILTER (WHERE b.state IN ('published', 'rewound')))
FROM tidemark.partitions p
LEFT JOIN tidemark.spans s ON (s.topic, s.partition) = (p.topic, p.partition)
LEFT JOIN tidemark.batches b ON (b.region, b.seq) = (s.region, s.seq)
WHERE p.topic = %s AND p.partition = %s
"""
"""How far the ledger has been; a rewind takes Kafka back after it has taken the ledger back."""
PARTLY = """
SELECT l.seq, l.rows, coalesce(found.rows, 0)
FROM tidemark.regions r, tidemark.targets t,
     LATERAL tidemark.rows_left(r.region, t.target, greatest(0, r.head_seq - {recent})) l
FULL JOIN (SELECT batch_seq AS seq, count(*) AS rows FROM {table}
           WHERE batch_seq >= (SELECT head_seq - {recent} FROM tidemark.regions)
           GROUP BY 1) found USING (seq)
WHERE t.table_name = '{table}' AND coalesce(l.rows, 0) <> coalesce(found.rows, 0)
"""
COMPLETE = "SELECT extract(epoch FROM complete_at)::float8 FROM tidemark.completeness"
THERE = """
SELECT count(*) FROM public.numbers WHERE kafka_partition = %s AND kafka_offset = ANY (%s)
"""


def ahead(region: TorturedRegion, group: Group) -> Iterator[str]:
    """Where Kafka has an offset that the ledger has never reached."""
    known = [TopicPartition(*found) for found in region.look(KNOWN)]
    for place, (offset, metadata) in group.committed_metadata(known).items():
        [(ever,)] = region.look(EVER, *place)
        if metadata and offset > ever:  # without, somebody moved it by hand
            yield f"Kafka has {offset} of {place}, the ledger was never beyond {ever}"


def partly(region: TorturedRegion) -> Iterator[str]:
    """Which of the newest batches are not visible whole."""
    for table in region.tables:
        for seq, told, found in region.look(PARTLY.format(table=table, recent=RECENT)):
            yield f"batch {seq} of {table}: {found} rows, the ledger says {told}"


def incomplete(region: TorturedRegion, journal: Journal) -> Iterator[str]:
    """What the region says is complete, and is not in its table."""
    with region.snapshot() as look:
        for (at,) in look(COMPLETE):
            for partition, offsets in journal.offsets_by(at or 0, NEWEST).items():
                [(count,)] = look(THERE, partition, offsets)
                if count != len(offsets):
                    lost = len(offsets) - count
                    yield f"complete at {at}, but {lost} rows of partition {partition} are missing"


class Sampler:
    """One thread that looks at one region after another."""

    def __init__(
        self,
        regions: Sequence[TorturedRegion],
        journals: dict[str, Journal],
        tally: Tally,
        random: Random,
    ) -> None:
        """`journals` by topic: what is complete is asked of regions that read one of them."""
        self._regions, self._journals = regions, journals
        self._groups = {one.region: one.group for one in regions}
        self._tally, self._random = tally, random
        self._over = Event()
        self._thread = tally.thread("sampler", self._go_on)

    def end(self) -> None:
        """It looks no more."""
        self._over.set()
        self._thread.join(120)

    def _go_on(self) -> None:
        while not self._over.wait(0.3):
            region = self._random.choice(self._regions)
            if region.finds(HAS_TABLE, region.tables[0]):
                self._ask(
                    "Kafka is never ahead", region, ahead(region, self._groups[region.region])
                )
                self._ask("a batch is visible whole", region, partly(region))
                if journal := self._journals.get(region.topic):
                    self._ask("complete is complete", region, incomplete(region, journal))

    def _ask(self, what: str, region: TorturedRegion, answers: Iterator[str]) -> None:
        try:
            for wrong in answers:
                self._tally.found(f"{region.region}: {wrong}")
        except (*AWAY, Unreachable):
            self._tally.looks[f"{what}: no answer"] += 1
        else:
            self._tally.looks[what] += 1
