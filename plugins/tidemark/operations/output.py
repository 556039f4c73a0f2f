"""A region's output topic: the ledger and the target in one snapshot, and the topic itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor
from sqlalchemy import Engine

from tidemark.kafka.output_topic import OutputTopic
from tidemark.ledger import sending
from tidemark.model.batch import Checkpoint
from tidemark.model.output import OutputHistory, OutputRecord, Sent, Unsent
from tidemark.postgres.transaction import autocommit, snapshot
from tidemark.settings.output import OutputSettings
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.output_rows import KeptRows, OutputRows, TargetRows, records_of
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class OutputSnapshot:
    """One moment of the ledger and of the target whose rows are sent."""

    cursor: Cursor
    region: str
    rows: OutputRows

    def checkpoint(self, at: int | None) -> Checkpoint:
        """The merged checkpoint of the head, or as of a seq."""
        return sending.checkpoint_at(self.cursor, self.region, at)

    def knows(self, sent: Sent) -> bool:
        """Whether it is a batch of this ledger, published or rewound; or none at all."""
        return sending.knows(self.cursor, self.region, sent)

    def newest_up_to(self, seq: int) -> Sent:
        """The newest batch up to a seq, published or rewound."""
        return sending.newest_up_to(self.cursor, self.region, seq)

    def history(self) -> OutputHistory:
        """What the ledger knows beside the batches."""
        return sending.history(self.cursor, self.region)

    def unsent(self, sent: Sent) -> Sequence[Unsent]:
        """The batches that were published after it and count."""
        return sending.unsent(self.cursor, self.region, self.rows.target.name, sent.seq)

    def records(self, batch: Unsent) -> Iterator[OutputRecord]:
        """What the batch sends; see `records_of`."""
        return records_of(self.rows, self.cursor, self.region, batch)


@dataclass(frozen=True, slots=True)
class RegionOutput:
    """The output topic of a pipeline."""

    settings: OutputSettings
    engine: Engine
    rows: OutputRows
    log: OutputTopic

    @property
    def topic(self) -> str:
        """Its name."""
        return self.settings.topic

    @property
    def max_rows(self) -> int:
        """Rows of several batches in one transaction."""
        return self.settings.max_rows

    @property
    def max_seconds(self) -> int:
        """How long one transaction may take."""
        return self.settings.max_seconds

    @property
    def start(self) -> str | None:
        """Beginning or end, where the region has published before."""
        return self.settings.start

    @property
    def resume_after(self) -> int | None:
        """The newest batch in the topic as a person says it."""
        return self.settings.resume_after

    @contextmanager
    def snapshot(self, region: str) -> Iterator[OutputSnapshot]:
        """A look at the ledger, for as long as its records are read."""
        with snapshot(self.engine) as cursor:
            yield OutputSnapshot(cursor, region, self.rows)

    def newest_seq(self, region: str) -> int | None:
        """The newest batch of the region that the topic's own records name."""
        return self.log.newest_seq(region)

    def confirm(self, region: str, sent: Sent) -> None:
        """What the outbox kept of it, and of what was rewound before, goes."""
        if isinstance(self.rows, KeptRows):
            with autocommit(self.engine) as cursor:
                sending.forget_sent(cursor, region, sent.seq)


def output_of(pipeline: Pipeline, engine: Engine, kafka: Mapping[str, str]) -> RegionOutput | None:
    """The pipeline's output; None if it has none."""
    settings, name = pipeline.output, pipeline.sent_target
    if settings is None or name is None:
        return None
    one = pipeline.all_targets[name]
    target = Target.parse(one.table, name)
    rows = KeptRows(target) if one.upsert else TargetRows(target, settings.key)
    return RegionOutput(settings, engine, rows, OutputTopic(kafka, settings.topic))
