"""The region that is broken and healed: good, bad, aborted and missing records, several batches."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import two_tables
from tests.support.executor import LocalExecutor
from tests.support.produce import produce, produce_transaction
from tests.support.region import DrivenRegion
from tests.support.sent import SentRecord, another_sends, sent_to
from tests.support.topics import create_topic

from tidemark.admin.replay import replay_dead_letters
from tidemark.admin.withhold import withhold_batch
from tidemark.ledger.actions import Order
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.protocol.mirror import differences
from tidemark.runs.member import ExecutorOf
from tidemark.verify.verify import verify

BATCH_RECORDS = 120
BAD = b'{"n": "not a number"}'

Row = tuple[int, int, int]
"""Partition, offset, n."""


def _settings() -> dict[str, Any]:
    return {
        "kafka": {"session_timeout_seconds": 2},  # a killed driver is missed so soon
        "batch": {"max_records": BATCH_RECORDS, "in_flight": 1},
        "decode": {"schema": {"n": "bigint"}},
        "target": {"table": "public.numbers"},
        "no_progress_seconds": 120,
    }


@dataclass
class FaultRegion(DrivenRegion):
    """The region as plain data, so that another process can have it."""

    settings: dict[str, Any] = field(default_factory=_settings)
    partitions: int = 3

    def fill(self) -> None:
        """Partitions: plain, transactional with aborted records, with dead letters; then plain."""
        produce(self.kafka, self.topic, _numbers(0, 120), 0)
        produce_transaction(self.kafka, self.topic, _numbers(1000, 60), 1)
        produce_transaction(self.kafka, self.topic, _numbers(9000, 30), 1, abort=True)
        produce_transaction(self.kafka, self.topic, _numbers(1060, 60), 1)
        mixed = [BAD if n % 10 == 3 else v for n, v in enumerate(_numbers(2000, 120))]
        produce(self.kafka, self.topic, mixed, 2)
        for partition in range(3, self.partitions):
            produce(self.kafka, self.topic, _numbers(1000 * partition, 200), partition)

    def run(self, executor_of: ExecutorOf = LocalExecutor) -> None:
        """Open, drain as one member, close."""
        self.open()
        self.retry(executor_of)

    def open(self) -> str:
        """Open a run and return its id."""
        run_id = f"fault/{uuid4()}"
        self.begin(run_id, self.pipeline.bounds())
        return run_id

    def retry(self, executor_of: ExecutorOf) -> None:
        """Join the newest run as one more member and close it: what a task's retry does."""
        self.member(executor_of)
        self.close(self.newest_run())

    def member(self, executor_of: ExecutorOf) -> None:
        """Join the newest run as one more member, until the ledger says that it is done."""
        self.join(self.newest_run(), f"fault {os.getpid()}", executor_of)

    def newest_run(self) -> str:
        """The run that holds the newest epoch of all runs."""
        [(run_id,)] = self.sql("SELECT run_id FROM tidemark.runs ORDER BY epoch DESC LIMIT 1")
        return str(run_id)

    def contributors(self) -> set[str]:
        """The names of the members whose contributions were accepted."""
        named = (
            "SELECT DISTINCT name FROM tidemark.contributions JOIN tidemark.members USING (member)"
        )
        return {name for (name,) in self.sql(named)}

    def upsert(self) -> None:
        """From now on the rows are upserted, by keys that each partition has several times."""
        self.settings["decode"] = {"schema": {"n": "bigint", "k": "bigint", "gone": "boolean"}}
        self.settings["target"] |= {"mode": "upsert", "key": ["k"], "deleted": "gone"}

    def several(self) -> None:
        """From now on each record is a row of two tables, and the newest of its key in one."""
        self.settings |= two_tables.SETTINGS

    def send(self) -> None:
        """From now on the rows are sent to a topic of its own."""
        create_topic(AdminClient({"bootstrap.servers": self.kafka}), NewTopic(self.sink, 2, 1))
        # A mirror that was killed keeps its offsets from the next run for so long.
        self.settings["output"] = {"topic": self.sink, "max_seconds": 5}

    @property
    def sink(self) -> str:
        """The output topic."""
        return f"{self.topic}-output"

    def _last(self, good: list[tuple[int, int, dict[str, Any]]]) -> list[Any]:
        """Of each key the last record, unless that deletes it."""
        last = {one["k"]: (p, o, one) for p, o, one in sorted(good, key=lambda found: found[:2])}
        return [found for found in last.values() if not found[2]["gone"]]

    def _unlike_rows(self, records: list[SentRecord]) -> Iterator[str]:
        sent = [(one.seq, json.loads(one.value or b"")["n"]) for one in records]
        live = {seq for (seq,) in self.sql(PUBLISHED)}
        rows = self.sql(SENDABLE)
        yield from compared("sent records", rows, [one for one in sent if one[0] in live])
        yield from (f"sent twice: {one}" for one, times in Counter(sent).items() if times > 1)

    def _unlike_newest(self, records: list[SentRecord]) -> Iterator[str]:
        """The newest record of each key is its row, or says that there is none."""
        newest = {one.key: one.value for one in records}
        sent = [json.loads(value)["n"] for value in newest.values() if value is not None]
        yield from compared("sent rows", [row[2] for row in self.rows()], sent)
        counts = Counter((one.seq, one.key) for one in records)
        yield from (f"sent twice: {one}" for one, times in counts.items() if times > 1)
        yield from (f"kept in the outbox: {n}" for (n,) in self.sql(KEPT))

    def rewind(self) -> None:
        """A rewind by hand to the first checkpoint."""
        accepted = ["accept_resend"] if "output" in self.settings else []
        [(seq,)] = self.sql("SELECT min(seq) FROM tidemark.batches WHERE state = 'published'")
        self.reset(to=seq, overrides=accepted)

    def publish_unsent(self) -> None:
        """A run has published all, and its driver died before any of it was sent."""
        run_id = self.open()
        with another_sends(self):
            self.join(run_id, "unsent", LocalExecutor)

    def withhold(self) -> None:
        """The first batch is never to be sent."""
        [(seq,)] = self.sql("SELECT min(seq) FROM tidemark.batches WHERE state = 'published'")
        withhold_batch(self.pipeline, self.connections, seq, Order("fault", "a fault"))

    def narrow(self) -> None:
        """Numbers that the field of now can't hold are dead letters of a run; then it is wider."""
        self.sql(
            "CREATE TABLE public.numbers (n bigint, kafka_topic text, kafka_partition int,"
            " kafka_offset bigint, batch_seq bigint NOT NULL)"
        )
        produce(self.kafka, self.topic, _numbers(70_000, 12), 0)
        self.settings["decode"] = {"schema": {"n": "smallint"}}
        self.run()
        self.settings["decode"] = {"schema": {"n": "bigint"}}
        bounds = self.pipeline.bounds()
        self.begin("wider", bounds, ("accept_changes",))
        self.retry(LocalExecutor)

    def replay(self, executor_of: ExecutorOf = LocalExecutor) -> None:
        """All dead letters are replayed."""
        order, meant = Order("fault", "a fault"), DeadLetterFilter()
        replay_dead_letters(self.pipeline, self.connections, meant, 10**6, order, executor_of)

    def faults_found(self) -> list[str]:
        """Everything that is not as it must be at rest; each text names what was found."""
        return list(self.faults())

    def faults(self) -> Iterator[str]:
        """The same, one after another."""
        committed = list(self.committed_of(self.topic))
        good = [(p, o, json.loads(v)) for p, o, v in committed if v != BAD]
        rows = self._last(good) if "key" in self.settings["target"] else good
        if "targets" in self.settings:
            yield from compared("newest", two_tables.newest(_numbered(good)), self.newest())
        bad = [(p, o) for p, o, v in committed if v == BAD]
        dead_letters = self.sql(
            'SELECT partition, "offset" FROM tidemark.dead_letters WHERE replayed_seq IS NULL'
        )
        yield from compared("rows", [(p, o, one["n"]) for p, o, one in rows], self.rows())
        yield from compared("dead letters", bad, dead_letters)
        yield from self.unlike_ledger()
        if "output" in self.settings:
            yield from self._unlike_output()

    def unlike_ledger(self) -> Iterator[str]:
        """Drift, leftovers, faults in the ledger itself, and what verify finds."""
        yield from self.drift()
        yield from (f"staging left: {name}" for (name,) in self.sql(STAGING))
        yield from (f"ledger: {fault}" for (fault,) in self.sql(LEDGER_FAULTS))
        yield from self._verified()

    def _unlike_output(self) -> Iterator[str]:
        """Where the output topic differs from what its batches published, rewound ones too."""
        records = sent_to(self.kafka, self.sink)
        if "key" in self.settings["target"]:
            yield from self._unlike_newest(records)
        else:
            yield from self._unlike_rows(records)
        for partition in (0, 1):
            seqs = [one.seq for one in records if one.partition == partition]
            if seqs != sorted(seqs):
                yield f"partition {partition} of the output is not in the order of the batches"

    def newest(self) -> list[Row]:
        """What is visible in the second target."""
        return self.sql("SELECT kafka_partition, kafka_offset, n FROM public.newest")

    def rows(self) -> list[Row]:
        """What is visible in the target."""
        if not self.sql("SELECT 1 WHERE to_regclass('public.numbers') IS NOT NULL"):
            return []
        return self.sql("SELECT kafka_partition, kafka_offset, n FROM public.numbers")

    def drift(self) -> list[str]:
        """Where Kafka's group offsets differ from the ledger's."""
        ledger = self.ledger()
        with closing(ledger.engine.raw_connection()):
            offsets = ledger.merged_checkpoint(self.region).offsets
        ledger.engine.dispose()
        found = self.group.committed(offsets)
        return [f"drift {text}" for text in differences(offsets, found)]

    def _verified(self) -> list[str]:
        report = verify(self.pipeline, self.connections, executor_of=LocalExecutor)
        return [f"verify: {report.wrong} wrong"] if report.wrong or report.unverifiable else []

    def committed_of(self, topic: str) -> Iterator[tuple[int, int, bytes]]:
        """Every record of a topic that is visible at read_committed, read without Tidemark."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": "fault-check",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        unread = set(consumer.list_topics(topic, 120).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in unread])
        while unread:
            message = consumer.poll(120)
            assert message is not None, f"partitions {unread} of {topic} give nothing"
            if message.error():
                unread.discard(message.partition())
            else:
                yield message.partition(), message.offset(), message.value()
        consumer.close()


def _numbered(good: list[tuple[int, int, dict[str, Any]]]) -> list[Row]:
    return [(partition, offset, one["n"]) for partition, offset, one in good]


PUBLISHED = "SELECT seq FROM tidemark.batches WHERE state = 'published'"
SENDABLE = f"""
SELECT batch_seq, n FROM public.numbers JOIN ({PUBLISHED} AND NOT withheld) b ON b.seq = batch_seq
"""
KEPT = "SELECT seq FROM tidemark.outbox"
STAGING = """
SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname = 'tidemark_staging' AND relkind = 'r'
"""
LEDGER_FAULTS = """
SELECT 'batch ' || seq || ' is ' || state FROM tidemark.batches
WHERE state NOT IN ('published', 'rewound')
UNION ALL
SELECT 'the run of epoch ' || epoch || ' is open' FROM tidemark.runs WHERE state = 'open'
UNION ALL
SELECT 'gap before ' || start_offset || ' of partition ' || partition FROM (
    SELECT s.partition, s.start_offset,
           lag(end_offset, 1, p.initial_offset) OVER (PARTITION BY s.partition ORDER BY s.seq) AS at
    FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id) WHERE s.live
) chain WHERE start_offset <> at
UNION ALL
SELECT 'partition ' || p.partition || ' stands at ' || p.next_offset
FROM tidemark.partitions p
WHERE next_offset <> (SELECT coalesce(max(end_offset), p.initial_offset)
                      FROM tidemark.spans s WHERE s.partition_id = p.partition_id AND s.live)
"""


def _numbers(start: int, count: int) -> list[bytes]:
    """Records of one partition: numbers that tell them apart, and keys that several have."""
    return [
        json.dumps({"n": n, "k": n // 1000 * 1000 + n % 40, "gone": n % 7 == 0}).encode()
        for n in range(start, start + count)
    ]


def compared(what: str, expected: list[Any], found: list[Any]) -> Iterator[str]:
    """Where two multisets differ."""
    lost, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if lost:
        yield f"{lost.total()} {what} lost, first {min(lost)}"
    if surplus:
        yield f"{surplus.total()} {what} doubled or foreign, first {min(surplus)}"
