"""Which paths the bench takes, and which Tidemark each of them stands beside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from scripts.bench.attempt import Attempt
from scripts.bench.peer_attempts import TRANSFORM, Peers
from scripts.bench.whole_runs import USUAL

SMALL, LARGE = 50_000, 1_000_000
KEYED = "scripts.demo.flight_data:of_each"
TRANSFORMS = {"": None, "Arrow": "jobs.flights_arrow:transform", "DataFrame": TRANSFORM}


@dataclass(frozen=True, slots=True)
class Path:
    """One way from Kafka to Postgres."""

    name: str
    transform: str
    batch: int | None
    """Records; none: all that there are."""
    attempt: Callable[[], Attempt]
    in_flight: int = USUAL
    kill: bool = False
    """Whether it is also killed: one path of each kind, with small batches."""
    is_usual: bool = False
    """Whether it is Tidemark as one has it by default: others are compared with it."""

    @property
    def beside(self) -> tuple[str, int]:
        """What Tidemark has in common with it: transform, and records a batch."""
        return self.transform, self.batch or LARGE

    def __str__(self) -> str:
        """Name, transform, records a batch; and batches in flight, where it is not the usual."""
        parts = [self.name]
        parts += [self.transform] if self.transform else []
        parts += [f"{self.batch:,}"] if self.batch else []
        parts += [f"{self.in_flight} in flight"] if self.in_flight != USUAL else []
        return ", ".join(parts)


def paths(peers: Peers) -> list[Path]:
    """All, in the order in which they take turns."""
    return [*tidemark(peers), *kinds(peers), *others(peers)]


def tidemark(peers: Peers) -> Iterator[Path]:
    """Each transform with each size of batch; small ones also without another in flight."""
    ways = ((SMALL, USUAL), (SMALL, 1), (LARGE, USUAL))
    for (name, transform), (batch, in_flight) in product(TRANSFORMS.items(), ways):

        def attempt(
            transform: str | None = transform, batch: int = batch, in_flight: int = in_flight
        ) -> Attempt:
            return peers.bench.attempt(batch, transform, in_flight)

        is_killed = batch == SMALL and (name, in_flight) in {("", 1), ("DataFrame", USUAL)}
        is_usual = in_flight == USUAL
        yield Path(
            name="Tidemark",
            transform=name,
            batch=batch,
            attempt=attempt,
            in_flight=in_flight,
            kill=is_killed,
            is_usual=is_usual,
        )


def kinds(peers: Peers) -> Iterator[Path]:
    """Tidemark in other ways, beside the usual one."""
    upsert = {"mode": "upsert", "key": ["id"]}
    for batch in (SMALL, LARGE):

        def upserted(batch: int = batch) -> Attempt:
            return peers.bench.attempt(batch, KEYED, USUAL, target=upsert)

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
