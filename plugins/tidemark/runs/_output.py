"""A region's output: the ledger and the target in one snapshot, and the topics themselves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from tidemark.kafka.output_topic import OutputTopics
from tidemark.ledger import sending
from tidemark.ledger.sending import sent_dead_letters
from tidemark.model.batch import Checkpoint
from tidemark.model.output import OutputHistory, OutputRecord, Parts, Sent, SentSeqs, Topics, Unsent
from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import autocommit, snapshot
from tidemark.settings.endpoints import Connections
from tidemark.settings.fingerprint import of_sending
from tidemark.settings.output import OutputSettings
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.output_rows import KeptRows, OutputRows, TargetRows, records_of, try_rows
from tidemark.staging.target import Target

if TYPE_CHECKING:
    from tidemark.runs._output_avro import AvroOutput


@dataclass(frozen=True, slots=True)
class OutputSnapshot:
    """One moment of the ledger and of the target whose rows are sent; see the port."""

    cursor: Cursor
    region: str
    topics: Topics
    parts: Parts
    rows: OutputRows | None
    avro: "AvroOutput | None"

    def checkpoint(self, at: int | None) -> Checkpoint:
        return sending.checkpoint_at(self.cursor, self.region, at)

    def knows(self, sent: Sent) -> bool:
        return sending.knows(self.cursor, self.region, sent)

    def newest_up_to(self, seq: int) -> Sent:
        return sending.newest_up_to(self.cursor, self.region, seq)

    def history(self) -> OutputHistory:
        return sending.history(self.cursor, self.region)

    def unsent(self, sent: Sent) -> Sequence[Unsent]:
        return sending.unsent(self.cursor, self.region, self.parts, sent.seq)

    def records(self, batch: Unsent) -> Iterator[OutputRecord]:
        """What the batch sends, rows first; see `records_of` and `sent_dead_letters`."""
        if self.rows and self.topics.rows:
            rows = records_of(self.rows, self.cursor, self.region, batch, self.topics.rows)
            yield from self.avro.encoded(self.cursor, rows) if self.avro else rows
        if self.topics.dead_letters:
            yield from sent_dead_letters(self.cursor, self.region, batch, self.topics.dead_letters)


@dataclass(frozen=True, slots=True)
class RegionOutput:
    """The output topics of a pipeline; see the port."""

    topics: Topics
    sends: Mapping[str, str]
    parts: Parts
    max_rows: int
    max_seconds: int
    start: str | None
    resume_after: int | None
    engine: Engine
    rows: OutputRows | None
    avro: "AvroOutput | None"
    log: OutputTopics

    @contextmanager
    def snapshot(self, region: str) -> Iterator[OutputSnapshot]:
        with snapshot(self.engine) as cursor:
            yield OutputSnapshot(
                cursor=cursor,
                region=region,
                topics=self.topics,
                parts=self.parts,
                rows=self.rows,
                avro=self.avro,
            )

    def check(self) -> None:
        """The topics are there, rows can be read, and a registry takes their schema."""
        self.log.facts()
        if self.rows and self.topics.rows:
            with autocommit(self.engine) as cursor:
                try_rows(cursor, self.rows.target)
        if self.avro:
            with autocommit(self.engine) as cursor:
                self.avro.prepared(cursor)

    def sent_seqs(self, region: str) -> SentSeqs:
        with autocommit(self.engine) as cursor:
            return sending.sent_seqs(cursor, region)

    def begin_sending(self, region: str, seq: int) -> None:
        with autocommit(self.engine) as cursor:
            sending.write_sending(cursor, region, seq)

    def newest_seq(self, region: str) -> int | None:
        return self.log.newest_seq(region)

    def raise_next_seq(self, region: str, seq: int) -> None:
        with autocommit(self.engine) as cursor:
            sending.raise_next_seq(cursor, region, seq)

    def confirm(self, region: str, sent: Sent) -> None:
        """The ledger knows it; what the outbox kept of it, and of what was rewound before, goes."""
        with autocommit(self.engine) as cursor:
            sending.write_sent(cursor, region, sent)
            if isinstance(self.rows, KeptRows):
                sending.forget_sent(cursor, region, sent.seq)


def output_of(
    pipeline: Pipeline, registries: Connections, engine: Engine, kafka: Mapping[str, str]
) -> RegionOutput | None:
    """The pipeline's output; None if it has none."""
    settings, topics = pipeline.sending, pipeline.sent_to
    if settings is None:
        return None
    rows, avro = _rows_of(pipeline, settings), None
    if rows and settings.topic and settings.registry:  # Arrow comes with the registry's client
        from tidemark.runs._output_avro import avro_output

        avro = avro_output(registries[settings.registry], settings.topic, rows.target)
    return RegionOutput(
        topics=topics,
        sends=of_sending(pipeline),
        parts=pipeline.sent_parts,
        max_rows=settings.max_rows,
        max_seconds=settings.max_seconds,
        start=settings.start,
        resume_after=settings.resume_after,
        engine=engine,
        rows=rows,
        avro=avro,
        log=OutputTopics(kafka, topics.names),
    )


def _rows_of(pipeline: Pipeline, settings: OutputSettings) -> OutputRows | None:
    name = pipeline.sent_target
    if name is None:
        return None
    one = pipeline.all_targets[name]
    target = Target.parse(one.table, name)
    return KeptRows(target) if one.upsert else TargetRows(target, settings.key)
