"""Which paths the bench takes, and which Tidemark each of them stands beside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from scripts.attempt import Attempt
from scripts.peers import TRANSFORM, Peers

SMALL, LARGE = 50_000, 1_000_000
KEYED = "scripts.keyed_flights:of_each"
TRANSFORMS = {"": None, "Arrow": "jobs.flights_arrow:transform", "DataFrame": TRANSFORM}


@dataclass(frozen=True, slots=True)
class Path:
    """One way from Kafka to Postgres."""

    name: str
    transform: str
    batch: int | None
    """Records; none: all that there are."""
    attempt: Callable[[], Attempt]
    in_flight: int = 1
    kill: bool = False
    """Whether it is also killed: one path of each kind, with small batches."""
    ours: bool = False

    @property
    def beside(self) -> tuple[str, int]:
        """What Tidemark has in common with it: transform, and records a batch."""
        return self.transform, self.batch or LARGE

    def reason(self, records: int) -> str | None:
        """Why it can't be taken with so few records."""
        if self.in_flight > 1 and 2 * (self.batch or 0) > records:
            return f"{records:,} records are less than two batches: take more by --times"
        return None

    def __str__(self) -> str:
        """Name, transform, records a batch."""
        parts = [self.name]
        parts += [self.transform] if self.transform else []
        parts += [f"{self.batch:,}"] if self.batch else []
        parts += [f"{self.in_flight} in flight"] if self.in_flight > 1 else []
        return ", ".join(parts)


def paths(peers: Peers) -> list[Path]:
    """All, in the order in which they take turns."""
    return [*tidemark(peers), *kinds(peers), *others(peers)]


def tidemark(peers: Peers) -> Iterator[Path]:
    """Each transform with each size of batch, one at a time and two."""
    for (name, transform), batch, in_flight in product(TRANSFORMS.items(), (SMALL, LARGE), (1, 2)):

        def attempt(
            transform: str | None = transform, batch: int = batch, in_flight: int = in_flight
        ) -> Attempt:
            return peers.bench.attempt(batch, transform, in_flight)

        kill = batch == SMALL and (name, in_flight) in {("", 1), ("DataFrame", 2)}
        yield Path("Tidemark", name, batch, attempt, in_flight, kill, ours=True)


def kinds(peers: Peers) -> Iterator[Path]:
    """Tidemark in other ways, beside the usual one."""
    upsert = {"mode": "upsert", "key": ["id"]}
    for batch in (SMALL, LARGE):

        def upserted(batch: int = batch) -> Attempt:
            return peers.bench.attempt(batch, KEYED, target=upsert)

        yield Path("Tidemark upsert", "Arrow", batch, upserted)
        yield Path("Tidemark Avro", "", batch, partial(peers.avro, batch))


def others(peers: Peers) -> Iterator[Path]:
    """What one would write instead, and the upper limit."""
    yield Path("Spark write.jdbc", "", None, lambda: peers.spark(False), kill=True)
    yield Path("Spark write.jdbc", "DataFrame", None, lambda: peers.spark(True))
    yield Path("foreachBatch", "", SMALL, lambda: peers.stream(SMALL), kill=True)
    yield Path("foreachBatch", "", LARGE, lambda: peers.stream(LARGE))
    yield Path("consumer by hand", "", SMALL, lambda: peers.consumer(SMALL), kill=True)
    yield Path("consumer by hand", "", LARGE, lambda: peers.consumer(LARGE))
    yield Path("bare COPY", "", None, peers.copy)
