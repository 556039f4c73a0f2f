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


def kafka_tools(watch: Watch) -> str:
    """The class path of Kafka's command line tools.

    Raises:
        NotStarted: a jar cannot be fetched.
    """
    jars = named_in(TOOLS.read_text())
    tools = fetched(f"kafka-tools-{KAFKA_VERSION}", jars, 1, watch)
    return f"{tools}/*:{kafka_jars(watch)}/*"


def _marked(folder: Folder) -> dict[str, str]:
    """The environment of a process of these servers: it ends with them."""
    return {**os.environ, MARK: str(folder.root)}


class Verifiable:
    """Kafka's VerifiableProducer: it sends growing numbers and tells which were acknowledged.

    One that ends, as by an error that it does not retry, is followed by another one, whose values
    have the next prefix.
    """

    def __init__(
        self, classes: str, kafka: str, topic: str, rate: int, folder: Folder, tally: Tally
    ) -> None:
        """`rate` in records a second."""
        self.journal = Journal()
        tool = "org.apache.kafka.tools.VerifiableProducer"
        self._command = [str(java()), *HEAP, "-cp", classes, tool]
        self._command += ["--bootstrap-server", kafka, "--topic", topic]
        self._command += ["--throughput", str(rate), "--acks", "-1"]
        self._log, self._marked = folder.log("producer"), _marked(folder)
        self._over = Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = tally.thread("producer", self._go_on)

    def end(self) -> None:
        """It sends nothing more, and all that it was told is in the journal."""
        self._over.set()
        if self._process:
            self._process.terminate()
        self._thread.join(120)

    def _go_on(self) -> None:
        with self._log.open("w") as log:
            for prefix in count(1):
                if self._over.is_set():
                    return
                self._process = subprocess.Popen(
                    [*self._command, "--value-prefix", str(prefix)],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                    env=self._marked,
                )
                assert self._process.stdout
                for line in self._process.stdout:
                    self.journal.hear(line)
                self._process.wait()


class Copier:
    """Kafka's TransactionalMessageCopier: it copies a topic in transactions, and aborts some.

    It ends when it has copied what was there at its start, and is started again.
    """

    def __init__(
        self, classes: str, kafka: str, source: str, sink: str, folder: Folder, tally: Tally
    ) -> None:
        tool = "org.apache.kafka.tools.TransactionalMessageCopier"
        self._command = [str(java()), *HEAP, "-cp", classes, tool, "--broker-list", kafka]
        self._command += ["--input-topic", source, "--output-topic", sink, "--group-mode"]
        self._command += ["--input-partition", "-1", "--consumer-group", f"{sink}-copier"]
        self._command += ["--transactional-id", f"{sink}-copier", "--use-group-metadata"]
        self._command += ["--transaction-size", "300", "--transaction-timeout", "10000"]
        self._log, self._marked = folder.log("copier"), _marked(folder)
        self._over = Event()
        self._process: subprocess.Popen[bytes] | None = None
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
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._marked,
            )
            return self._process.wait()


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
        classes = kafka_tools(Watch())
        self._ids = Verifiable(classes, kafka, ids, rate, folder, tally)
        self.copier = Copier(classes, kafka, ids, copies, folder, tally)
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
