"""The paths that the bench takes: Tidemark, and what one would write instead of it, beside it.

All have the same topic, Postgres, columns and cores.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

import psycopg2
import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from psycopg2 import sql
from scripts.bench.stack import EXAMPLE, ROOT, USUAL, Attempt, Bench, console
from scripts.bench.usage import Usage
from scripts.demo.flight_data import create_topic, replay
from scripts.demo.flight_formats import avro_flights

from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark_local._jars import fetched, kafka_jars, named_in
from tidemark_local.watch import Watch

CORES = 2
"""As Spark's master in the local stack's connection, `local[2]`."""
JARS = ROOT / "scripts" / "bench" / "spark_peer.jars"
TRANSFORM = "jobs.flights:transform"
SMALL, LARGE = 50_000, 1_000_000
KEYED = "scripts.demo.flight_data:of_each"
TRANSFORMS = {"": None, "Arrow": "jobs.flights_arrow:transform", "DataFrame": TRANSFORM}


class Peers:
    """What one would write instead; tables that Tidemark made are the models of theirs."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.plain = bench.tidemark(1_000_000).table
        """All rows of the topic, as Tidemark writes them without a transform."""

    @cached_property
    def transformed(self) -> str:
        """Rows of the first batch, through the worked example's transform."""
        some = self.bench.attempt(100_000, TRANSFORM)
        some.argv.append("--max-batches=1")
        return self.bench.measured(some).table

    def avro(self, batch: int) -> Attempt:
        """Tidemark on the same flights in Avro, with a real registry.

        Raises:
            NotStarted: the registry does not start.
        """
        decode = {"format": "avro", "registry": "tidemark_registry"}
        topics = {"topics": [self._in_avro]}
        return self.bench.attempt(batch, None, USUAL, kafka=topics, decode=decode)

    @cached_property
    def _in_avro(self) -> str:
        """The topic of the flights in Avro."""
        stack, topic = self.bench.stack, f"{self.bench.topic}_avro"
        stack.up(["registry"])
        schema = arrow_schema(Pipeline.load(EXAMPLE).decode.declared)
        text, values = avro_flights([value for _, value in self.bench.flights], schema)
        registry = SchemaRegistryClient({"url": stack.registry.url})
        number = registry.register_schema(f"{topic}-value", Schema(text))
        flights = [
            (key, b"\0" + number.to_bytes(4) + value)
            for (key, _), value in zip(self.bench.flights, values, strict=True)
        ]
        create_topic(stack.kafka.bootstrap, topic)
        replay(stack.kafka.bootstrap, topic, flights, self.bench.records // len(flights))
        return topic

    def spark(self, transform: bool) -> Attempt:
        """Spark's Kafka source and write.jdbc.

        Raises:
            NotStarted: a jar cannot be fetched.
        """
        return self._attempt("spark_peer", transform, {"jars": jars()})

    def stream(self, batch: int) -> Attempt:
        """Structured Streaming with foreachBatch.

        Raises:
            NotStarted: a jar cannot be fetched.
        """
        return self._attempt("stream_peer", False, {"jars": jars(), "batch": batch})

    def consumer(self, batch: int) -> Attempt:
        """A consumer written by hand."""
        return self._attempt("consumer_peer", False, {"batch": batch})

    def copy(self) -> Attempt:
        """One COPY of all rows."""
        return self._attempt("copy_peer", False, {})

    def _attempt(self, script: str, transform: bool, more: dict[str, Any]) -> Attempt:
        table, folder = f"peer_{time.time_ns()}", self.bench.folder()
        self._make(table, self.transformed if transform else self.plain)
        job = {
            "bootstrap": self.bench.stack.kafka.bootstrap,
            "topic": self.bench.topic,
            "schema": yaml.safe_load(EXAMPLE.read_text())["decode"]["schema"],
            "transform": transform,
            "table": table,
            "rows": self.plain,
            "postgres": self.bench.postgres,
            "cores": CORES,
            "folder": str(folder / "checkpoints"),
            **more,
        }
        argv = [sys.executable, "-m", f"scripts.bench.{script}"]
        spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
        env = {"PEER_JOB": json.dumps(job), "PYTHONPATH": str(ROOT), **spark}
        return Attempt(table=table, argv=argv, env=env, seconds=printed_seconds, folder=folder)

    def _make(self, table: str, model: str) -> None:
        """An empty logged table with the columns of Tidemark's but for `batch_seq`."""
        names = {"model": sql.Identifier(model), "table": sql.Identifier(table)}
        postgres = psycopg2.connect(**self.bench.postgres)
        with closing(postgres) as connection, connection, connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE TABLE {table} (LIKE {model})").format(**names))
            cursor.execute(sql.SQL("ALTER TABLE {table} DROP COLUMN batch_seq").format(**names))


@cache
def jars() -> list[str]:
    """What Spark's own paths need beside Spark."""
    watch = Watch(lambda part, text: console.print(f"  {part}: {text}"))
    folder = fetched("spark-peer", named_in(JARS.read_text()), 2, watch)
    own = [*folder.glob("*.jar"), *kafka_jars(watch).glob("kafka-clients-*.jar")]
    return [str(jar) for jar in own]


def printed_seconds(usage: Usage) -> float:
    """What the script measured by itself."""
    return float(json.loads(usage.output.splitlines()[-1])["seconds"])


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
