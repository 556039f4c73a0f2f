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
from typing import Any

import psycopg2
import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from psycopg2 import sql
from scripts.bench.stack import EXAMPLE, ROOT, Attempt, Bench, console
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
TIDEMARK = "Tidemark"
SIZES = 50_000, 100_000, 250_000, 1_000_000
"""Records a batch, where one size is asked for."""
KEYED = "scripts.demo.flight_data:of_each"
TRANSFORMS = {"": None, "Arrow": "jobs.flights_arrow:transform", "DataFrame": TRANSFORM}


class Peers:
    """What one would write instead; tables that Tidemark made are the models of theirs."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.plain = bench.measured(bench.attempt(SIZES[-1])).table
        """All rows of the topic, as Tidemark writes them without a transform."""

    @cached_property
    def transformed(self) -> str:
        """Rows of the first batch, through the worked example's transform."""
        some = self.bench.attempt(100_000, TRANSFORM)
        some.argv.append("--max-batches=1")
        return self.bench.measured(some).table

    def avro(self) -> Attempt:
        """Tidemark on the same flights in Avro, with a real registry.

        Raises:
            NotStarted: the registry does not start.
        """
        decode = {"format": "avro", "registry": "tidemark_registry"}
        topics = {"topics": [self._in_avro]}
        return self.bench.attempt(None, None, kafka=topics, decode=decode)

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
    """Records; none: as the path does it by default."""
    attempt: Callable[[], Attempt]
    kill: bool = False
    """Whether it is also killed: one path of each kind."""

    @property
    def is_default(self) -> bool:
        """Whether it is what a file without settings of batches gets: others are beside it."""
        return self.name == TIDEMARK and self.batch is None

    def __str__(self) -> str:
        """Name, transform, and records a batch."""
        parts = [self.name]
        parts += [self.transform] if self.transform else []
        parts += [f"{self.batch:,}"] if self.batch else []
        return ", ".join(parts)


def paths(peers: Peers) -> list[Path]:
    """All, in the order in which they take turns."""
    return [*defaults(peers), *of_size(peers), *others(peers)]


def defaults(peers: Peers) -> Iterator[Path]:
    """Each transform, target and format; the first one twice: so far do two equal paths differ."""
    own = partial(peers.bench.attempt, None)
    for name, transform in TRANSFORMS.items():
        kill = name in {"", "DataFrame"}
        yield Path(TIDEMARK, name, None, partial(own, transform), kill=kill)
    yield Path(f"{TIDEMARK}, again", "", None, partial(own, None))
    upsert = {"mode": "upsert", "key": ["id"]}
    yield Path(f"{TIDEMARK} upsert", "Arrow", None, partial(own, KEYED, target=upsert))
    yield Path(f"{TIDEMARK} Avro", "", None, peers.avro)


def of_size(peers: Peers) -> Iterator[Path]:
    """Tidemark with batches of one size."""
    for batch in SIZES:
        yield Path(TIDEMARK, "", batch, partial(peers.bench.attempt, batch, None))


def others(peers: Peers) -> Iterator[Path]:
    """What one would write instead, and the upper limit."""
    for batch in SIZES:
        killed = batch == SIZES[0]
        yield Path("consumer by hand", "", batch, partial(peers.consumer, batch), kill=killed)
    yield Path("Spark write.jdbc", "", None, partial(peers.spark, False), kill=True)
    yield Path("Spark write.jdbc", "DataFrame", None, partial(peers.spark, True))
    yield Path("foreachBatch", "", SIZES[0], partial(peers.stream, SIZES[0]), kill=True)
    yield Path("foreachBatch", "", SIZES[-1], partial(peers.stream, SIZES[-1]))
    yield Path("bare COPY", "", None, peers.copy)
