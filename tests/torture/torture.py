"""One torture: regions of several kinds, faults without end, then all is healed and compared."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from confluent_kafka.admin import NewTopic
from tests.faults.region import compared
from tests.support.databases import administer
from tests.support.topics import create_topic
from tests.support.waiting import outlast
from tests.torture.crew import Conductor, Crew
from tests.torture.producers import Sources
from tests.torture.proxy import Doubt
from tests.torture.regions import IdRegion, TorturedRegion
from tests.torture.sampler import Sampler
from tests.torture.servers import Servers, servers
from tests.torture.tally import Tally
from tests.torture.torment import Torment

TOPICS = IDS, COPIES, NUMBERS = "ids", "copies", "numbers"
"""The topics: of Kafka's producer, of Kafka's copier, of ours."""
PARTITIONS = 3
PROGRESS_SECONDS = 15
SETTINGS = {
    "kafka": {"session_timeout_seconds": 2},  # a killed driver is missed so soon
    "no_progress_seconds": 60,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of region: what it reads, how many records a batch has, how it differs."""

    topic: str
    records: int
    shape: Callable[[Any], None] = lambda _: None


KINDS: Mapping[str, Kind] = {
    "ids": Kind(IDS, 6000),
    "copies": Kind(COPIES, 6000),
    "append": Kind(NUMBERS, 1500),
    "upsert": Kind(NUMBERS, 1500, TorturedRegion.upsert),
    "targets": Kind(NUMBERS, 1500, TorturedRegion.several),
    "output": Kind(NUMBERS, 1500, TorturedRegion.send),
}


@dataclass
class Torture:
    """What is tried, and how long; all its choices come from the seed."""

    root: Path
    kinds: tuple[str, ...]
    seed: int
    tally: Tally
    rate: int = 1200
    """Records a second that Kafka's producer sends; ours sends a third of it."""

    def run(self, seconds: float) -> None:
        """Break everything for so long, and until each fault has struck; then heal and compare."""
        self.tally.tell("starting Kafka and Postgres")
        with servers(self.root, self._doubted) as found:
            for topic in TOPICS:
                create_topic(found.admin, NewTopic(topic, PARTITIONS, 1))
            regions = [self._region(name, found) for name in self.kinds]
            random, crew = Random(self.seed), Crew(found.folder.private("steps"), self.tally)
            sources = Sources(found.kafka, *TOPICS, self.rate, random, found.folder, self.tally)
            self._torment = Torment(found, crew, regions, sources.copier, self.tally, random)
            sampler = Sampler(regions, {IDS: sources.journal}, self.tally, random)
            conductors = [Conductor(region, crew, random) for region in regions]
            self._until_all_struck(seconds, sources)
            self.tally.tell("healing all, and draining what is left")
            self._torment.end()
            sources.end()
            for conductor in conductors:
                conductor.end()
            sampler.end()
            self._check(conductors, sources)

    def _doubted(self, kind: Doubt, port: int) -> None:
        self._torment.doubted(kind, port)

    def _region(self, name: str, found: Servers) -> TorturedRegion:
        kind = KINDS[name]
        administer(found.postgres, "CREATE DATABASE {} OWNER {}", name, "tidemark")
        direct = found.postgres.parameters("warehouse") | {"dbname": name}
        through = direct | {"port": found.to_postgres.port}
        made = TorturedRegion if kind.topic == NUMBERS else IdRegion
        region = made(found.kafka, through, kind.topic, name, direct=direct)
        kind.shape(region)
        region.settings |= SETTINGS | {"batch": {"max_records": kind.records, "in_flight": 2}}
        return region

    def _until_all_struck(self, seconds: float, sources: Sources) -> None:
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0 or (self._torment.works and self._torment.missed()):
            outlast(min(PROGRESS_SECONDS, left) if left > 0 else PROGRESS_SECONDS)
            self.tally.sent = sources.sent()
            missed = "" if left > 0 else f", not yet: {', '.join(self._torment.missed())}"
            self.tally.tell(
                f"{sum(self.tally.sent.values()):,} records sent,"
                f" {self.tally.hits.total():,} hits, {self.tally.ends.total():,} programs ended,"
                f" {len(self.tally.wrong)} findings{missed}"
            )

    def _check(self, conductors: list[Conductor], sources: Sources) -> None:
        for conductor in conductors:
            region = conductor.region
            self.tally.tell(f"comparing {region.region}")
            if not conductor.settle():
                self.tally.found(f"{region.region} can't be drained")
            for fault in (*region.faults(), *unlike_sources(region, sources)):
                self.tally.found(f"{region.region}: {fault}")


def unlike_sources(region: TorturedRegion, sources: Sources) -> Iterator[str]:
    """Where rows differ from what Kafka told its own producer, or its copier copied."""
    if isinstance(region, IdRegion) and region.topic == IDS:
        yield from region.lost_of(sources.journal.acked)
    elif isinstance(region, IdRegion):
        copies = [value for _, _, value in region.rows()]
        sent = [value.decode() for _, _, value in region.committed_of(IDS)]
        yield from compared("copies", sent, copies)
