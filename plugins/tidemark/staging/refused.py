"""Find the records that targets refuse, by halving, inside the publish.

They are left out of all targets, as dead letters. Who refused them is noted in a table that lives
as long as the publish.

Postgres numbers the records by their coordinates, and they go in slice by slice, into all targets.
A slice that a target refuses is rolled back and halved, down to a single record. If that is
refused, none of its rows goes in: a record becomes either rows or a dead letter. Rows that went in
stay, so of two rows that exclude each other the first wins, wherever the slices are cut. Refused
records are tried again as long as that inserts more: a row may refer to one that came later.

Where what went in depends on what is left out, as of an upsert, all is rolled back and begins anew
without the refused records, until none is refused. A row that is refused because of other rows is
tried again with what these become: each round drops the rows that depend on the fewest others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psycopg2
from psycopg2 import sql

from tidemark.deadline import Deadline
from tidemark.model.batch import ONLY, Batch, Moved
from tidemark.model.dead_letters import MOST_A_BATCH
from tidemark.postgres.session import Cursor, exact_texts
from tidemark.staging.column import COORDINATES, Column
from tidemark.staging.errors import (
    RefusedRowsNotAllFound,
    RefusedRowsOfNoRecord,
    RowsLackCoordinates,
    RowsNotPrepared,
    RowUnplaced,
)
from tidemark.staging.move import EVERYTHING, Moving, of_winners
from tidemark.staging.refusal import REFERS, UNIQUE, is_refusal, target_refused
from tidemark.staging.target import Target

REASON = "TARGET_REFUSED"
"""The reason of the dead letters written here."""

_ROW = sql.SQL("(to_jsonb(staged.*) - ARRAY['member', 'attempt'])")
_OF_TARGET = sql.SQL("""
SELECT kafka_topic AS topic, kafka_partition AS partition, kafka_offset AS "offset",
       {name}::text AS target, {row} AS content FROM {rows} AS staged {which}
""")
_ROWS = sql.SQL("""
SELECT topic, partition, "offset", {rows} AS refused_rows
FROM (SELECT topic, partition, "offset", target, jsonb_agg(content ORDER BY content::text) AS rows
      FROM ({of_targets}) AS staged_rows GROUP BY 1, 2, 3, 4) AS by_target
GROUP BY 1, 2, 3
""")
_OF_ONE, _BY_TARGET = sql.SQL("(array_agg(rows))[1]"), sql.SQL("jsonb_object_agg(target, rows)")

_MAKE = sql.SQL("""
CREATE UNLOGGED TABLE IF NOT EXISTS {refused}
    (partition_id bigint, topic text, partition int, "offset" bigint, target text, detail text)
""")
_NOTE = sql.SQL("""
INSERT INTO {refused}
SELECT s.partition_id, r.* FROM unnest(
    {topics}::text[], {partitions}::int[], {offsets}::bigint[], {targets}::text[], {details}::text[]
) AS r (topic, partition, "offset", target, detail)
JOIN tidemark.spans s ON s.region = {region} AND s.seq = {seq}
    AND s.topic = r.topic AND s.partition = r.partition
    AND r."offset" >= s.start_offset AND r."offset" < s.end_offset
""")
# what was refused there lies beside the dead letters, see `copy_rows`
_AT_STAGING = sql.SQL("""
SELECT DISTINCT ON (topic, partition, "offset") topic, partition, "offset", reason, detail
FROM {dead_letters} WHERE (member, -1 - attempt) IN (
    SELECT member, attempt
    FROM unnest({members}::bigint[], {attempts}::bigint[]) AS winners (member, attempt)
)
ORDER BY topic, partition, "offset", reason COLLATE "C"
""")
_IS = sql.SQL("""r.topic = staged.kafka_topic AND r.partition = staged.kafka_partition
    AND r."offset" = staged.kafka_offset""")
_WANTED = sql.SQL("NOT EXISTS (SELECT FROM {refused} AS r WHERE {is_it})")
_JOINED = sql.SQL("JOIN {refused} AS r ON {is_it} WHERE {chosen}")
_COUNT = sql.SQL("SELECT count(*) FROM {rows} AS staged {which}")
HASH = sql.SQL("sha256(convert_to({}::text, 'UTF8'))")
"""Of a record's refused rows, as JSON; a text's own of a database in another encoding."""
_BY_TARGETS = sql.SQL("SELECT target, count(*) FROM {refused} GROUP BY 1")
# of what is longer a text that begins it is kept: first come, while the batch has room
_WRITE = sql.SQL("""
WITH found AS MATERIALIZED (
    SELECT k.*, octet_length(k.refused_rows::text) AS bytes,
           sum(least(octet_length(k.refused_rows::text), {most}::bigint))
               OVER (ORDER BY topic, partition, "offset" ROWS UNBOUNDED PRECEDING) AS taken
    FROM ({kept}) AS k
), written AS (
    INSERT INTO tidemark.dead_letters
        (region, partition_id, topic, partition, "offset", seq, reason, detail, refused_rows,
         hash, whole_bytes)
    SELECT {region}, r.partition_id, r.topic, r.partition, r."offset", {seq}, {reason}, r.detail,
           CASE WHEN k.taken > {most_a_batch} THEN '""'
                WHEN k.bytes > {most} THEN to_jsonb(left(k.refused_rows::text, {most}::int
                    / CASE WHEN k.bytes = char_length(k.refused_rows::text) THEN 1 ELSE 4 END))
                ELSE k.refused_rows END,
           {hash}, CASE WHEN k.bytes > {most} OR k.taken > {most_a_batch} THEN k.bytes END
    FROM found AS k JOIN {refused} AS r USING (topic, partition, "offset")
    RETURNING partition_id, "offset"
) SELECT r.target, count(*) FROM written JOIN {refused} AS r USING (partition_id, "offset")
GROUP BY 1
""")


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record by the coordinates of its rows, and which target refuses a row of it by what."""

    topic: str | None
    partition: int | None
    offset: int | None
    target: str
    detail: str

    @property
    def coordinates(self) -> str:
        """Where the record is: `flights[3]@42`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def named(self, trial: Target, target: Target) -> "RefusedRecord":
        """The same with the name of the target in place of its trial's."""
        own, known = (f"{one.schema}.{one.table}" for one in (trial, target))
        return replace(self, detail=self.detail.replace(own, known))


def refused_at_staging(
    cursor: Cursor, batch: Batch, winners: Sequence[tuple[int, int]]
) -> list[RefusedRecord]:
    """The records of which Postgres could not store a row, each once."""
    cursor.execute(
        _AT_STAGING.format(
            dead_letters=sql.Identifier(batch.staging.schema, batch.staging.dead_letters),
            members=sql.Literal([member for member, _ in winners]),
            attempts=sql.Literal([attempt for _, attempt in winners]),
        )
    )
    return [RefusedRecord(*row) for row in cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class RefusedRecords:
    """The refused records of a batch, inside its publish; `targets` are the names of all."""

    cursor: Cursor
    batch: Batch
    targets: Sequence[str]
    winners: Sequence[tuple[int, int]]

    @property
    def wanted(self) -> sql.Composed:
        """The condition of the staged rows that are of none of them."""
        return _WANTED.format(refused=self._table, is_it=_IS)

    def note(self, refused: Sequence[RefusedRecord]) -> None:
        """They are left out from now on.

        Raises:
            TargetRefused: the coordinates of a refused row are not those of a record of the batch.
        """
        self.cursor.execute(_MAKE.format(refused=self._table))
        columns = {
            f"{name}s": sql.Literal([getattr(one, name) for one in refused])
            for name in ("topic", "partition", "offset", "target", "detail")
        }
        self.cursor.execute(_NOTE.format(**self._names, **columns))
        if strange := len(refused) - self.cursor.rowcount:
            raise RefusedRowsOfNoRecord(guard=refused[0].detail, rows=strange)
        self.cursor.execute(sql.SQL("ANALYZE {refused}").format(**self._names))

    def count_records(self) -> dict[str, int]:
        """How many each target refused."""
        self.cursor.execute(_BY_TARGETS.format(**self._names))
        return dict(self.cursor.fetchall())

    def write_dead_letters(self, most: int | None = None) -> dict[str, int]:
        """Write a dead letter for each, and forget them; how many by the target that refused.

        At most so many bytes are kept of each one's rows, and MOST_A_BATCH of all; None: all.

        The rows stand there as the transform made them. The record as it came is not at hand:
        Kafka is not asked inside a transaction, and a second one after COMMIT could be lost. Its
        coordinates tell where it is.
        """
        exact_texts(self.cursor)  # whoever compares their hash may have other settings
        which = _JOINED.format(**self._names)
        kept = rows_of_records(self.batch, self.targets, which)
        bounds = {"most": most, "most_a_batch": None if most is None else MOST_A_BATCH}
        self.cursor.execute(
            _WRITE.format(
                **self._names,
                **{name: sql.Literal(bound) for name, bound in bounds.items()},
                kept=kept,
                reason=sql.Literal(REASON),
                hash=HASH.format(sql.SQL("k.refused_rows")),
            )
        )
        written = dict(self.cursor.fetchall())
        self.cursor.execute(sql.SQL("DROP TABLE {refused}").format(**self._names))
        return written

    def count_rows(self, target: str) -> int:
        """How many staged rows of a target are of them."""
        rows, which = _staged(self.batch, target), _JOINED.format(**self._names)
        self.cursor.execute(_COUNT.format(rows=rows, which=which))
        return int((self.cursor.fetchone() or (0,))[0])

    @property
    def _table(self) -> sql.Identifier:
        staging = self.batch.staging
        return sql.Identifier(staging.schema, f"{self.batch.region}_{self.batch.seq}_refused")

    @property
    def _names(self) -> dict[str, sql.Composable]:
        return {
            "refused": self._table,
            "is_it": _IS,
            "chosen": of_winners(self.winners),
            "region": sql.Literal(self.batch.region),
            "seq": sql.Literal(self.batch.seq),
        }


def rows_of_records(batch: Batch, targets: Sequence[str], which: sql.Composable) -> sql.Composed:
    """A SELECT of records with their staged rows, as a dead letter keeps them.

    An array; of several targets an object, by their names. `which` chooses among `staged`.
    """
    parts = [
        _OF_TARGET.format(name=sql.Literal(name), row=_ROW, rows=_staged(batch, name), which=which)
        for name in targets
    ]
    rows = _OF_ONE if tuple(targets) == (ONLY,) else _BY_TARGET
    return _ROWS.format(rows=rows, of_targets=sql.SQL(" UNION ALL ").join(parts))


def missing_coordinates(columns: Sequence[Column]) -> list[str]:
    """Which coordinate columns are missing or have another type."""
    types = {column.name: column.postgres_type for column in columns}
    return [name for name, kind in COORDINATES.items() if types.get(name) != kind]


def refuse_without_coordinates(columns: Sequence[Column], setting: str, instead: str) -> None:
    """Raise InvalidSettings if rows lack the coordinates of their record, which a setting needs."""
    if missing := missing_coordinates(columns):
        raise RowsLackCoordinates(setting=setting, instead=instead, missing=tuple(missing))


def _staged(batch: Batch, target: str) -> sql.Identifier:
    return sql.Identifier(batch.staging.schema, batch.staging.of_target(target).rows)


@dataclass(frozen=True, slots=True)
class RefusedBy:
    """The name of a target, and what of it refuses a row."""

    target: str
    detail: str
    rests_on: int = 0
    """How much the refusal depends on other rows: 0 not at all, 1 by a unique index or an exclusion
    constraint, 2 and more by a foreign key: more the later the target comes."""


class SliceRefused(Exception):
    """A target refuses a row of a slice; the slice was rolled back."""

    def __init__(self, refusal: RefusedBy) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


@dataclass(slots=True)
class SearchStep:
    """What is under way."""

    moving: Moving


@contextmanager
def savepoint(cursor: Cursor, movings: Sequence[Moving]) -> Iterator[SearchStep]:
    """What happens inside stands, or nothing of it.

    Raises:
        SliceRefused: one of the targets refuses a row.
    """
    step = SearchStep(movings[0])
    cursor.execute("SAVEPOINT slice")
    try:
        yield step
    except RowUnplaced as error:
        refusal = RefusedBy(step.moving.target.name, str(error))
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        by = _refusing(error, movings, step.moving)
        # Parents stand first: a row that refers to none of the batch's rows rests on fewer.
        place, code = movings.index(by), error.pgcode
        rests_on = 2 + place if code in REFERS else int(code in UNIQUE)
        refusal = RefusedBy(by.target.name, target_refused(error, [by.target]).guard, rests_on)
    else:
        cursor.execute("RELEASE SAVEPOINT slice")
        return
    cursor.execute("ROLLBACK TO SAVEPOINT slice; RELEASE SAVEPOINT slice")
    raise SliceRefused(refusal)


def _refusing(error: psycopg2.Error, movings: Sequence[Moving], at_work: Moving) -> Moving:
    """Of a constraint that waited the one whose table it names."""
    place = error.diag.schema_name, error.diag.table_name
    named = [one for one in movings if (one.target.schema, one.target.table) == place]
    return named[0] if named else at_work


Slice = Sequence[int]
"""Places of records."""

_PLACES_OF_TARGET = sql.SQL(
    "SELECT {name}::text AS target, of_target.* FROM ({places}) AS of_target"
)
_MAKE_PLACES = sql.SQL("""
CREATE UNLOGGED TABLE {places} AS
SELECT dense_rank() OVER (ORDER BY kafka_topic COLLATE "C", kafka_partition, kafka_offset) AS place,
       target, at, kafka_topic, kafka_partition, kafka_offset
FROM ({of_targets}) AS staged_rows;
CREATE INDEX ON {places} (place, target);
ANALYZE {places};
SELECT coalesce(max(place), 0) FROM {places}
""")
_AT = sql.SQL("ARRAY(SELECT at FROM {places} WHERE target = {name} AND place {which})")
_FROM_TO = sql.SQL("BETWEEN {} AND {}")
_ANY = sql.SQL("= ANY ({}::bigint[])")
_RECORDS = sql.SQL("""
SELECT DISTINCT place, kafka_topic, kafka_partition, kafka_offset FROM {places} WHERE place {which}
""")


@dataclass(frozen=True, slots=True)
class Places:
    """The records of a batch by number, in the order of their coordinates."""

    cursor: Cursor
    table: sql.Identifier
    count: int

    @classmethod
    def of(cls, cursor: Cursor, batch: Batch, movings: Sequence[Moving]) -> "Places":
        """Give each record its place, in a table that lives as long as the search."""
        table = sql.Identifier(batch.staging.schema, f"{batch.region}_{batch.seq}_places")
        parts = [
            _PLACES_OF_TARGET.format(name=sql.Literal(one.target.name), places=one.places())
            for one in movings
        ]
        cursor.execute(
            _MAKE_PLACES.format(places=table, of_targets=sql.SQL(" UNION ALL ").join(parts))
        )
        return cls(cursor, table, (cursor.fetchone() or (0,))[0])

    def at(self, target: str, some: Slice) -> sql.Composed:
        """The ctids of a target's rows at these places."""
        return _AT.format(places=self.table, name=sql.Literal(target), which=_which(some))

    def records(self, refused: Mapping[int, RefusedBy]) -> list[RefusedRecord]:
        """The records at the refused places."""
        which = _which(list(refused))
        self.cursor.execute(_RECORDS.format(places=self.table, which=which))
        return [
            RefusedRecord(
                topic=topic,
                partition=partition,
                offset=offset,
                target=refused[place].target,
                detail=refused[place].detail,
            )
            for place, topic, partition, offset in self.cursor.fetchall()
        ]

    def drop(self) -> None:
        """The table is gone."""
        self.cursor.execute(sql.SQL("DROP TABLE {}").format(self.table))


def _which(some: Slice) -> sql.Composed:
    if isinstance(some, range):
        return _FROM_TO.format(sql.Literal(some[0]), sql.Literal(some[-1]))
    return _ANY.format(sql.Literal(list(some)))


def halves(places: Slice) -> list[Slice]:
    """Both halves, the later one first: they are taken from the end."""
    middle = len(places) // 2
    return [half for half in (places[middle:], places[:middle]) if half]


SEARCH_SECONDS = 300.0
"""Limit of the search in one batch: it holds the region lock, others wait up to lock_timeout."""


NAMING_SECONDS = 30.0
"""Limit of the search for one record, to name it: the batch is refused in any case."""


@dataclass(slots=True)
class Search:
    """Moves one batch into targets that may refuse some of its rows."""

    cursor: Cursor
    batch: Batch
    movings: Sequence[Moving]
    """Parents first."""
    winners: Sequence[tuple[int, int]]
    room: int | None
    """The search ends early if more records are refused; then the caller must refuse the batch."""
    dead_letter_bytes: int | None = None
    """Kept of the rows of a refused record, as JSON; None keeps them whole."""
    _found: int = 0
    _written: Counter[str] = field(default_factory=Counter)
    _deadline: Deadline = field(default_factory=lambda: Deadline(SEARCH_SECONDS))

    def move(self) -> dict[str, Moved]:
        """Move the rows that the targets accept; write dead letters for the other records.

        Leaves out what staging has refused, and tries the others as a whole first.

        Raises:
            TargetRefused: the search takes too long, or a refused row names no record of the batch.
        """
        names = [moving.target.name for moving in self.movings]
        records = RefusedRecords(self.cursor, self.batch, names, self.winners)
        wanted: sql.Composable = EVERYTHING
        if found := refused_at_staging(self.cursor, self.batch, self.winners):
            self._found = len(found)
            records.note(found)
            wanted = records.wanted
        while not self._is_full(0) and (found := self._round(wanted)):
            records.note(found)
            wanted = records.wanted
            if self._is_final:
                break
        moved = {one.target.name: self._finished(records, one) for one in self.movings}
        if not self._found:
            return moved
        refused = records.count_records()
        written = records.write_dead_letters(self.dead_letter_bytes)
        return {
            name: replace(
                one, refused_records=refused.get(name, 0), dead_letters=written.get(name, 0)
            )
            for name, one in moved.items()
        }

    def first(self) -> RefusedRecord | None:
        """A record of which a target refuses a row; None if none is refused alone.

        Raises:
            TargetRefused: it is not found in time.
        """
        self._deadline = Deadline(NAMING_SECONDS)
        return next(iter(self._round(EVERYTHING)), None)

    def _round(self, wanted: sql.Composable) -> list[RefusedRecord]:
        """Move what is wanted; the records of which a row is refused.

        Nothing stands if what went in depends on them.
        """
        self._written.clear()
        self.cursor.execute("SAVEPOINT round")
        refused = self._moved(wanted)
        self._found += len(refused)
        if refused and not self._is_final:
            self.cursor.execute("ROLLBACK TO SAVEPOINT round")
        self.cursor.execute("RELEASE SAVEPOINT round")
        return refused

    def _moved(self, wanted: sql.Composable) -> list[RefusedRecord]:
        for moving in self.movings:
            try:
                with savepoint(self.cursor, [moving]):
                    moving.prepare(wanted)
            except SliceRefused as slice_refused:
                return self._unprepared(moving, slice_refused.refusal)
        try:
            self._apply(self.movings)
        except SliceRefused:
            return self._search(self.movings)
        return []

    def _unprepared(self, moving: Moving, refusal: RefusedBy) -> list[RefusedRecord]:
        """The records whose rows can't be prepared, one by one."""
        trial = moving.trial()
        if found := self._search([trial]):
            return [one.named(trial.target, moving.target) for one in found]
        raise RowsNotPrepared(target=str(moving.target), guard=refusal.detail)

    def _search(self, movings: Sequence[Moving]) -> list[RefusedRecord]:
        """Try the refused records again, pass after pass, until a pass inserts none of them."""
        places = Places.of(self.cursor, self.batch, movings)
        refused = self._halve(movings, places, halves(range(1, places.count + 1)))
        while refused and not self._is_full(len(refused)):
            known = len(refused)
            refused = self._halve(movings, places, [list(refused)])
            if len(refused) == known:
                break
        found = places.records(refused if self._is_final else _firmest(refused))
        places.drop()
        return found

    def _halve(
        self, movings: Sequence[Moving], places: Places, slices: list[Slice]
    ) -> dict[int, RefusedBy]:
        refused = dict[int, RefusedBy]()
        while slices and not self._is_full(len(refused)):
            self._refuse_late(len(refused))
            some = slices.pop()
            try:
                self._apply(movings, places, some)
            except SliceRefused as slice_refused:
                if len(some) == 1:
                    refused[some[0]] = slice_refused.refusal
                else:
                    slices += halves(some)
        return refused

    def _apply(
        self, movings: Sequence[Moving], places: Places | None = None, some: Slice = ()
    ) -> None:
        """Move the records at some places, or all, into all targets; or into none.

        Raises:
            SliceRefused: a target refuses one of their rows.
        """
        written = dict[str, int]()
        with savepoint(self.cursor, movings) as step:
            self.cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            for step.moving in movings:
                name = step.moving.target.name
                written[name] = step.moving.apply(places.at(name, some) if places else None)
            self.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self._written.update(written)

    def _finished(self, records: RefusedRecords, moving: Moving) -> Moved:
        name = moving.target.name
        if self._is_full(0):  # nothing of it will stand
            return Moved(0)
        moved = moving.finish(self._written[name])
        return replace(moved, refused_rows=records.count_rows(name)) if self._found else moved

    @property
    def _is_final(self) -> bool:
        return all(moving.is_final for moving in self.movings)

    def _is_full(self, more: int) -> bool:
        return self.room is not None and self._found + more > self.room

    def _refuse_late(self, more: int) -> None:
        if self._deadline.is_past:
            raise RefusedRowsNotAllFound(
                targets=tuple(str(moving.target) for moving in self.movings),
                found=self._found + more,
                seconds=SEARCH_SECONDS,
            )


def _firmest(refused: Mapping[int, RefusedBy]) -> Mapping[int, RefusedBy]:
    """Those that depend least on other rows; of the others it is not known yet."""
    least = min((one.rests_on for one in refused.values()), default=0)
    return {place: one for place, one in refused.items() if one.rests_on == least}
