"""Who fills the topics: Kafka's own tools, which nobody here wrote, and a producer of ours."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from threading import Event

from confluent_kafka import KafkaException, Producer
from tests.faults.region import BAD
from tests.torture.journal import Journal
from tests.torture.tally import Tally

from tidemark_local._folder import Folder
from tidemark_local._jars import KAFKA_VERSION, fetched, kafka_jars, named_in
from tidemark_local.daemon import MARK, java
from tidemark_local.watch import Watch

HEAP = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KEYS = 40
"""Of each partition."""
TOOLS = Path(__file__).with_name("kafka_tools.jars")


class KafkaTools:
    """Kafka's command line tools, as processes that end with the servers of the folder."""

    def __init__(self, folder: Folder) -> None:
        """The jars are here.

        Raises:
            NotStarted: one cannot be fetched.
        """
        watch, jars = Watch(), named_in(TOOLS.read_text())
        tools = fetched(f"kafka-tools-{KAFKA_VERSION}", jars, 1, watch)
        self._java = [str(java()), *HEAP, "-cp", f"{tools}/*:{kafka_jars(watch)}/*"]
        self._folder = folder

    def start(self, tool: str, *arguments: str) -> "subprocess.Popen[str]":
        """The tool runs; what it prints is for the caller, its log is in the folder."""
        with self._folder.log(tool).open("a") as log:
            return subprocess.Popen(
                [*self._java, f"org.apache.kafka.tools.{tool}", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, MARK: str(self._folder.root)},
            )


class Verifiable:
    """Kafka's VerifiableProducer: it sends growing numbers and tells which were acknowledged.

    One that ends, as by an error that it does not retry, is followed by another one, whose values
    have the next prefix.
    """

    def __init__(self, tools: KafkaTools, kafka: str, topic: str, rate: int, tally: Tally) -> None:
        """`rate` in records a second."""
        self.journal = Journal()
        self._arguments = ["--bootstrap-server", kafka, "--topic", topic]
        self._arguments += ["--throughput", str(rate), "--acks", "-1"]
        self._tools, self._over = tools, Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = tally.thread("producer", self._go_on)

    def end(self) -> None:
        """It sends nothing more, and all that it was told is in the journal."""
        self._over.set()
        if self._process:
            self._process.terminate()
        self._thread.join(120)

    def _go_on(self) -> None:
        for prefix in count(1):
            if self._over.is_set():
                return
            last = ["--value-prefix", str(prefix)]
            self._process = self._tools.start("VerifiableProducer", *self._arguments, *last)
            assert self._process.stdout
            for line in self._process.stdout:
                self.journal.hear(line)
            self._process.wait()


class Copier:
    """Kafka's TransactionalMessageCopier: it copies a topic in transactions, and aborts some.

    It ends when it has copied what was there at its start, and is started again.
    """

    def __init__(self, tools: KafkaTools, kafka: str, source: str, sink: str, tally: Tally) -> None:
        self._arguments = ["--broker-list", kafka, "--input-topic", source, "--output-topic", sink]
        self._arguments += ["--group-mode", "--input-partition", "-1", "--use-group-metadata"]
        self._arguments += ["--consumer-group", f"{sink}-copier"]
        self._arguments += ["--transactional-id", f"{sink}-copier"]
        self._arguments += ["--transaction-size", "300", "--transaction-timeout", "10000"]
        self._tools, self._over = tools, Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = tally.thread("copier", self._go_on)

    def end(self) -> None:
        """All that was there has been copied."""
        self._over.set()
        self._thread.join(300)
        while self._copied("--max-messages", "-1") != 0:
            pass

    def kill(self) -> bool:
        """Whether it was at work; the next one begins where its last transaction ended."""
        working = self._process is not None and self._process.poll() is None
        if self._process:
            self._process.kill()
        return working

    def _go_on(self) -> None:
        while not self._over.wait(1):
            self._copied("--enable-random-aborts")

    def _copied(self, *more: str) -> int:
        self._process = self._tools.start("TransactionalMessageCopier", *self._arguments, *more)
        self._process.communicate()  # it tells how far it is
        return self._process.returncode


class Feeder:
    """Numbers with keys and deletions: plain, in transactions, aborted; some can't be decoded."""

    def __init__(self, kafka: str, topic: str, rate: int, random: Random, tally: Tally) -> None:
        """`rate` in records a second."""
        self._kafka, self._topic, self._rate, self._random = kafka, topic, rate, random
        self._numbers = count()
        self._over = Event()
        self.sent = 0
        self._thread = tally.thread("feeder", self._go_on)

    def end(self) -> None:
        """It sends nothing more; what a transaction left open is aborted by the broker."""
        self._over.set()
        self._thread.join(180)

    def _go_on(self) -> None:
        while not self._over.is_set():
            amount = self._random.randint(20, 400)
            with suppress(KafkaException):
                self._send(amount, self._random.choice(["plain"] * 6 + ["commit"] * 3 + ["abort"]))
            self._over.wait(amount / self._rate)

    def _send(self, amount: int, how: str) -> None:
        given = {"bootstrap.servers": self._kafka, "log_level": 0, "message.timeout.ms": 60_000}
        if how != "plain":
            given |= {"transactional.id": f"{self._topic}-{how}", "transaction.timeout.ms": 10_000}
        producer = Producer(given)
        partition = self._random.choice(
            [*producer.list_topics(self._topic, 30).topics[self._topic].partitions]
        )
        if how != "plain":
            producer.init_transactions(30)
            producer.begin_transaction()
        for value in self._values(partition, amount):
            producer.produce(self._topic, value, partition=partition)
        producer.flush(60)
        if how == "commit":
            producer.commit_transaction(30)
        elif how == "abort":
            producer.abort_transaction(30)
        self.sent += amount * (how != "abort")

    def _values(self, partition: int, amount: int) -> Iterator[bytes]:
        for number in self._random.sample(range(amount), amount):
            n = next(self._numbers)
            key = partition * 1000 + number % KEYS
            good = json.dumps({"n": n, "k": key, "gone": self._random.random() < 0.1}).encode()
            yield BAD if self._random.random() < 0.01 else good


class Sources:
    """All that send, from now until `end`."""

    def __init__(
        self,
        kafka: str,
        ids: str,
        copies: str,
        numbers: str,
        rate: int,
        random: Random,
        folder: Folder,
        tally: Tally,
    ) -> None:
        """Kafka's producer fills `ids` at `rate` records a second, its copier `copies`."""
        tools = KafkaTools(folder)
        self._ids = Verifiable(tools, kafka, ids, rate, tally)
        self.copier = Copier(tools, kafka, ids, copies, tally)
        self._numbers = Feeder(kafka, numbers, rate // 3, random, tally)
        self.journal = self._ids.journal

    def sent(self) -> dict[str, int]:
        """How many records by whom; what was aborted does not count."""
        return {"VerifiableProducer": len(self.journal.acked), "ours": self._numbers.sent}

    def end(self) -> None:
        """Nobody sends, and all is copied."""
        self._ids.end()
        self._numbers.end()
        self.copier.end()
