"""Audit a table that another tool fills from Kafka: what is lost, doubled, altered or stale.

  1 bound     the tool's group, a time, offsets or the rows themselves say what must be there
  2 look      one snapshot of the table, a fingerprint of each row; then Kafka's ends are asked for
  3 again     the records are read, decoded and transformed here, and cast by Postgres in a SELECT
  4 compare   by coordinates, by key, or as a multiset; what differs is read once more, to be named
Nothing is written, in Kafka or in Postgres, and no ledger is needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.admin.importing import group_offsets
from tidemark.kafka.retention import retentions
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plain import amount
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, configure
from tidemark.postgres.transaction import snapshot
from tidemark.runs.region import Region, region_of
from tidemark.runs.schemas import evolved
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.spark.specs import read_spec
from tidemark.staging.catalog import TableColumn, find_columns, find_relation
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.columns import columns_of
from tidemark.staging.fit import parsed
from tidemark.staging.target import Target
from tidemark.verify._bounds import Judged, bounds_of, facts_after, offsets_of
from tidemark.verify._deviations import (
    NO_ROW,
    Appended,
    Deviation,
    Judge,
    LastWins,
    Other,
    Version,
    counted,
    deviations,
)
from tidemark.verify._fingerprints import EXPECTED, FOUND, Fingerprints
from tidemark.verify._named import Names, paired
from tidemark.verify._records import Records
from tidemark.verify._rows import COORDINATES
from tidemark.verify._table import OFFSET, PLACE, Audited, Coordinates
from tidemark.verify.errors import (
    AuditColumnNeeded,
    AuditColumnsDiffer,
    AuditColumnUnknown,
    AuditNeedsBound,
    AuditNeedsOneTarget,
    AuditOrderUnknown,
    AuditRowsHidden,
    AuditRowsUnfit,
    AuditTableMissing,
)
from tidemark.verify.report import (
    OF_ROWS,
    AuditedPartition,
    AuditReport,
    Difference,
    Kind,
    ToldBy,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT: Coordinates = ("__connect_topic", "__connect_partition", "__connect_offset")
"""What sinks of Kafka Connect, Confluent's and Debezium's, call a record's coordinates."""

UNFIT = 1000
"""Rows that a table can't hold: more are no fault of single records."""

_LONG_MS = {"statement_timeout": 86_400_000, "idle_in_transaction_session_timeout": 900_000}

Tell = Callable[[int, int, str], None]
"""Takes what is done, how much there is, and what it is at."""


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """What is asked of a table."""

    group: str | None = None
    """Whose offsets say up to where it is filled."""
    until: datetime | Offsets | None = None
    since: datetime | Offsets | None = None
    """Records before are not asked for: the tool began later than the log."""
    ignored: tuple[str, ...] = ()
    """Columns that no record tells."""
    coordinates: Coordinates | None = None
    """What the table calls topic, partition and offset; None: by the names that are known."""
    limit: int = 20
    """Differences that are named, of each kind."""


def audit(
    given: Pipeline,
    connections: Connections,
    question: AuditQuestion,
    *,
    spark: "Callable[[], SparkSession]",
    tell: Tell = lambda done, total, at: None,
) -> AuditReport:
    """Compare the pipeline's table, whoever fills it, with what Kafka still holds.

    `spark` is called for a transform of DataFrames, which must be importable. The tool may go on
    meanwhile: the table is seen at one moment, and its rows of later records are known as such.

    Raises:
        InvalidSettings, SchemaMismatch, Refused: see errors.py.
        DataLost: retention took records while they were read.
    """
    pipeline = _with_columns(given, connections)
    with region_of(pipeline, connections) as region, ExitStack() as closing_at_end:
        facts = region.broker.facts(region.broker.topics(pipeline.kafka.topics))
        until = _until(region, question, facts)
        since = offsets_of(region.broker, facts, question.since) if question.since else {}
        cursor = closing_at_end.enter_context(snapshot(region.ledger.engine, _LONG_MS))
        # a policy that would hide rows is an error then
        configure(cursor, {"row_security": "off"}, is_local=True)
        after = facts_after(region.broker, facts)
        high = region.broker.high_watermarks([*after.ends])
        records, audited = _sides(region, cursor, question, spark, sorted(after.ends))
        if until is None and not audited.coordinates:
            raise AuditNeedsBound(target=str(audited.target))
        if until is None:
            last = audited.last(cursor)
            until = {tp: min(last.get(tp, 0), end) for tp, end in after.ends.items()}
        is_cut = audited.has_coordinates and question.until is not None
        bounds = bounds_of(after, high, until, since, is_cut=is_cut)
        found = closing_at_end.enter_context(closing(Fingerprints(FOUND)))
        expected = closing_at_end.enter_context(closing(Fingerprints(EXPECTED)))
        look = _Audit(
            region=region,
            cursor=cursor,
            audited=audited,
            records=records,
            bounds=bounds,
            question=question,
            tell=tell,
        )
        return look.report(found, expected)


@dataclass(frozen=True, slots=True)
class _Audit:
    """One look at a table, and what it is compared with."""

    region: Region
    cursor: Cursor
    audited: Audited
    records: Records
    bounds: Judged
    question: AuditQuestion
    tell: Tell

    def report(self, found: Fingerprints, expected: Fingerprints) -> AuditReport:
        """What the comparison finds."""
        self.tell(0, 0, "reading the table")
        self.audited.take_found(self.cursor, self.bounds.ranges, found)
        unfit = [*self._read(expected)]
        dead_letters = dict(self.records.dead_letters.most_common())
        self.tell(0, 0, "comparing")
        judged = chain(unfit, deviations(expected, found, self._judge()))
        counts, kept = counted(judged, self.question.limit)
        named, pairs = self._named(kept)
        counts.update({Kind.altered: pairs, Kind.lost: -pairs, Kind.foreign: -pairs})
        return AuditReport(
            region=self.region.name,
            table=str(self.audited.target),
            told_by=self.audited.told_by,
            group=self.question.group,
            partitions=tuple(
                AuditedPartition(*tp, one.start, one.until, one.end)
                for tp, one in self.bounds.ranges.items()
            ),
            expected=expected.rows,
            rows=found.rows,
            dead_letters=dead_letters,
            **{str(kind): counts[kind] for kind in OF_ROWS},
            ahead=counts[Other.ahead],
            differences=tuple(named),
            unverifiable=(*self.bounds.unverifiable, *self._untold(counts[Other.untold])),
            notes=(*self.bounds.notes, *self._unjudged()),
        )

    def _read(self, expected: Fingerprints) -> Iterator[Deviation]:
        """Take the rows of all records; what is lost because the table can't hold it."""
        spans, done, unfit = self.bounds.spans, 0, 0
        total = sum(one.width for one in spans)
        self.tell(0, total, "records")
        for rows in self.records.rows(spans) if spans else ():
            for number in self.audited.take_expected(self.cursor, rows, expected):
                unfit += 1
                if unfit > UNFIT:
                    raise AuditRowsUnfit(target=str(self.audited.target), rows=UNFIT)
                place, offset = (rows.column(one.name)[number].as_py() for one in (PLACE, OFFSET))
                version = Version(NO_ROW, place, offset, 0)
                if self.audited.told_by is ToldBy.row and offset < self._until[place]:
                    yield Deviation(Kind.lost, NO_ROW, version)
            done += rows.num_rows
            self.tell(min(done, total), total, "records")

    @property
    def _until(self) -> list[int]:
        return [one.until for one in self.bounds.ranges.values()]

    def _judge(self) -> Judge:
        """How the rows of one identity are judged."""
        settings = retentions(self.region.kafka, {tp.topic for tp in self.bounds.ranges})
        is_whole = not any(one.may_compact for one in settings.values())
        if self.audited.told_by is ToldBy.coordinates:
            return Appended(self._until, is_whole, has_coordinates=True)
        is_whole = is_whole and self.bounds.are_whole
        if self.audited.told_by is ToldBy.key:
            return LastWins(self._until, is_whole)
        return Appended(self._until, is_whole, has_coordinates=False)

    def _named(self, kept: Sequence[Deviation]) -> tuple[list[Difference], int]:
        """By their records and values; how many pairs of a lost and a foreign row are one."""
        self.tell(0, 0, "naming what differs")
        rows = {one.identity for one in kept if one.row}
        found = self.audited.texts_found(self.cursor, rows) if rows else ()
        names = Names(
            places=[*self.bounds.ranges],
            coordinates=self.audited.coordinates if self.audited.has_coordinates else None,
            expected=dict(self._expected_texts(kept)),
            found=dict(found),
        )
        if self.audited.told_by is ToldBy.row:
            together = [*paired(kept, names)]
            return [names.difference(one) for one in together], len(kept) - len(together)
        return [names.difference(one) for one in kept], 0

    def _expected_texts(self, kept: Sequence[Deviation]) -> Iterator[tuple[bytes, str]]:
        """Of the records that are named; those between them are read once more."""
        wanted: dict[int, set[int]] = {}
        for one in kept:
            for version in filter(None, (one.wanted, one.older)):
                wanted.setdefault(version.place, set()).add(version.offset)
        partitions = [*self.bounds.ranges]
        spans = [Span(*partitions[place], min(offsets), max(offsets) + 1)
                 for place, offsets in sorted(wanted.items())]  # fmt: skip
        for rows in self.records.rows(spans, wanted) if spans else ():
            yield from self.audited.texts(self.cursor, rows)

    def _untold(self, rows: int) -> Iterator[str]:
        if rows:
            yield (
                f"{amount(rows, 'row')} may be of records that Kafka no longer holds, or does not"
                " show yet (a log that begins later or is compacted, an open transaction, a"
                " setting that may not be asked for): whether they belong there can't be told"
            )

    def _unjudged(self) -> Iterator[str]:
        rows, of_others = self.audited.unjudged(self.cursor, self.bounds.ranges)
        if of_others:
            yield f"{amount(of_others, 'row')} of other topics: not compared"
        if rows > of_others and self.audited.told_by is ToldBy.key:
            yield f"{amount(rows, 'row')} with a null in the key: not compared"
        elif rows > of_others:
            yield f"{amount(rows - of_others, 'row')} of records outside of what is compared"


def _with_columns(given: Pipeline, connections: Connections) -> Pipeline:
    """The pipeline with its columns, where a registry says them; no ledger is asked."""
    if len(given.all_targets) > 1:
        raise AuditNeedsOneTarget(file=str(given.path), targets=tuple(given.all_targets))
    if not registered(given):
        return given
    return evolved(given, Endpoints.of(given, connections).registries, None).pipeline


def _until(region: Region, question: AuditQuestion, facts: Facts) -> Offsets | None:
    """Up to where the table is said to be filled; None: its rows say it."""
    if question.group:
        return group_offsets(region.kafka, question.group, facts)
    if question.until is None:
        return None
    return offsets_of(region.broker, facts, question.until)


def _sides(
    region: Region,
    cursor: Cursor,
    question: AuditQuestion,
    spark: "Callable[[], SparkSession]",
    places: Sequence[TopicPartition],
) -> tuple[Records, Audited]:
    """The rows that records give, and the table that should have them, in the same columns."""
    pipeline, [target] = region.pipeline, region.targets
    own = _columns_of(cursor, target)
    upsert = pipeline.upsert_of(target.name)
    if upsert and upsert.order_by:
        raise AuditOrderUnknown(target=str(target), column=upsert.order_by)
    coordinates = question.coordinates or next(
        (names for names in (COORDINATES, CONNECT) if own.keys() >= {*names}), None
    )
    names = dict(zip(COORDINATES, coordinates, strict=True)) if coordinates else {}
    spec = read_spec(pipeline, region.endpoints)
    # the rows are read here, as the driver's login: no task runs
    spec = replace(spec, kafka=region.kafka | {"group.id": pipeline.group})
    records = Records(
        spec=spec, transform=pipeline.named_transform, spark=spark, names=names, places=places
    )
    schema = records.schema()
    rows = pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema])
    compared = _compared(target, own, rows.names, question, upsert, coordinates)
    audited = Audited(
        target=target,
        columns=[one for one in parsed(columns_of(rows), [*own.values()])
                 if one.name in {*compared, upsert and upsert.deleted}],
        own=own,
        compared=compared,
        coordinates=coordinates,
        upsert=upsert,
    )  # fmt: skip
    audited.refuse_other_types(cursor, records.none(rows))
    return records, audited


def _columns_of(cursor: Cursor, target: Target) -> dict[str, TableColumn]:
    relation = find_relation(cursor, target.schema, target.table)
    if relation is None:
        raise AuditTableMissing(target=str(target))
    if relation.has_row_security:
        raise AuditRowsHidden(target=str(target), user=relation.user)
    return {own.name: own for own in find_columns(cursor, target.schema, target.table)}


def _compared(
    target: Target,
    own: Mapping[str, TableColumn],
    rows: Sequence[str],
    question: AuditQuestion,
    upsert: Upsert | None,
    coordinates: Coordinates | None,
) -> list[str]:
    """The columns that both have, but for those that are left out by name."""
    left_out, table = {*question.ignored}, str(target)
    if strange := left_out - {*own, *rows}:
        raise AuditColumnUnknown(target=table, column=min(strange))
    compared = [name for name in own if name in rows and name not in left_out]
    needed = upsert.key if upsert else coordinates or ()
    if lacking := [name for name in needed if name not in compared]:
        raise AuditColumnNeeded(target=table, column=lacking[0])
    left_out |= {upsert.deleted} if upsert and upsert.deleted else set()
    left_out |= {*COORDINATES} if not coordinates else {BATCH_SEQ}
    missing = tuple(name for name in rows if name not in own and name not in left_out)
    unknown = tuple(name for name in own if name not in {*rows, *left_out, BATCH_SEQ})
    if missing or unknown:
        raise AuditColumnsDiffer(target=table, missing=missing, unknown=unknown)
    return compared
