"""The paths that the bench takes: Tidemark, and what one would write instead of it, beside it.

All have the same topic, Postgres, columns and cores.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from psycopg2 import sql
from scripts.bench.formats import avro_flights
from scripts.bench.stack import EXAMPLE, Attempt, Bench, console
from scripts.bench.usage import ROOT
from scripts.demo.flight_data import create_topic, replay

from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark_local._jars import fetched, kafka_jars, named_in
from tidemark_local.watch import Watch

CORES = 2
"""As Spark's master in the local stack's connection, `local[2]`."""
ARROW, DATAFRAME = "jobs.flights_arrow:transform", "jobs.flights:transform"
MAKE = "CREATE TABLE {table} (LIKE {model}); ALTER TABLE {table} DROP COLUMN batch_seq"
KEYED = "scripts.demo.flight_data:of_each"
SIZES = 50_000, 100_000, 250_000, 1_000_000
"""Records a batch, where one size is asked for."""


@dataclass(frozen=True, slots=True)
class Path:
    """One way from Kafka to Postgres."""

    name: str
    """With its transform, and its records a batch if that is not as by default."""
    attempt: Callable[[], Attempt]
    beside: str = "Tidemark"
    """Which of Tidemark's own its rows per second are compared with."""
    kill: bool = False
    """Whether it is also killed: one path of each kind."""


def paths(bench: Bench) -> Iterator[Path]:
    """All, in the order in which they take turns.

    The first one comes twice: so far do two equal paths differ.
    """
    own, peers = bench.attempt, Peers(bench)
    upsert = {"mode": "upsert", "key": ["id"]}
    arrow, dataframe = "Tidemark, Arrow", "Tidemark, DataFrame"
    yield Path("Tidemark", own, kill=True)
    yield Path(arrow, partial(own, transform=ARROW), arrow)
    yield Path(dataframe, partial(own, transform=DATAFRAME), dataframe, kill=True)
    yield Path("Tidemark, again", own)
    yield Path("Tidemark upsert, Arrow", partial(own, transform=KEYED, target=upsert), arrow)
    yield Path("Tidemark Avro", peers.avro)
    for size in SIZES:
        yield Path(f"Tidemark, {size:,}", partial(own, size))
    for size in SIZES:
        consumer = partial(peers.attempt, "consumer_peer", batch=size)
        yield Path(f"consumer by hand, {size:,}", consumer, kill=size == SIZES[0])
    spark = partial(peers.attempt, "spark_peer")
    yield Path("Spark write.jdbc", spark, kill=True)
    yield Path("Spark write.jdbc, DataFrame", partial(spark, transform=True), dataframe)
    for size in (SIZES[0], SIZES[-1]):
        stream = partial(peers.attempt, "stream_peer", batch=size)
        yield Path(f"foreachBatch, {size:,}", stream, kill=size == SIZES[0])
    yield Path("bare COPY", partial(peers.attempt, "copy_peer"))


class Peers:
    """What one would write instead; tables that Tidemark made are the models of theirs."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def attempt(self, script: str, *, transform: bool = False, batch: int = 0) -> Attempt:
        """A script of this folder, into an empty logged table with the columns of Tidemark's.

        Raises:
            NotStarted: a jar cannot be fetched.
        """
        table, folder = f"peer_{time.time_ns()}", self.bench.folder()
        model = sql.Identifier(self._transformed if transform else self._plain)
        self.bench.ask(sql.SQL(MAKE).format(table=sql.Identifier(table), model=model))
        job = {
            "bootstrap": self.bench.stack.kafka.bootstrap,
            "topic": self.bench.topic,
            "schema": yaml.safe_load(EXAMPLE.read_text())["decode"]["schema"],
            "transform": transform,
            "batch": batch,
            "table": table,
            "rows": self._plain,
            "postgres": self.bench.stack.postgres.parameters("warehouse"),
            "cores": CORES,
            "folder": str(folder / "checkpoints"),
            "jars": jars() if script in ("spark_peer", "stream_peer") else [],
        }
        argv = [sys.executable, "-m", f"scripts.bench.{script}"]
        spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
        env = {"PEER_JOB": json.dumps(job), "PYTHONPATH": str(ROOT), **spark}
        return Attempt(table, argv, env, seconds=printed_seconds, folder=folder)

    @cached_property
    def _plain(self) -> str:
        """All rows of the topic, as Tidemark writes them without a transform."""
        attempt = self.bench.attempt(SIZES[-1])
        self.bench.measured(attempt)
        return attempt.table

    @cached_property
    def _transformed(self) -> str:
        """Rows of the first batch, through the worked example's transform."""
        attempt = self.bench.attempt(100_000, DATAFRAME)
        attempt.argv.append("--max-batches=1")
        self.bench.measured(attempt)
        return attempt.table

    def avro(self) -> Attempt:
        """Tidemark on the same flights in Avro, with a real registry.

        Raises:
            NotStarted: the registry does not start.
        """
        decode = {"format": "avro", "registry": "tidemark_registry"}
        return self.bench.attempt(kafka={"topics": [self._in_avro]}, decode=decode)

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


@cache
def jars() -> list[str]:
    """What Spark's own paths need beside Spark."""
    watch = Watch(lambda part, text: console.print(f"  {part}: {text}"))
    named = named_in((ROOT / "scripts" / "bench" / "spark_peer.jars").read_text())
    folder = fetched("spark-peer", named, 2, watch)
    own = [*folder.glob("*.jar"), *kafka_jars(watch).glob("kafka-clients-*.jar")]
    return [str(jar) for jar in own]


def printed_seconds(output: str) -> float:
    """What the script measured by itself."""
    return float(json.loads(output.splitlines()[-1])["seconds"])
