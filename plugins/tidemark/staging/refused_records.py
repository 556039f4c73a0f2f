"""Records of which a target refused a row: they are left out of all targets, as dead letters.

Who refused them is noted in a table that lives as long as the publish.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import ONLY, Batch
from tidemark.model.dead_letters import MOST_A_BATCH
from tidemark.staging.column import Column
from tidemark.staging.errors import RefusedRowsOfNoRecord, RowsLackCoordinates
from tidemark.staging.move import of_winners
from tidemark.staging.target import Target

COORDINATES = {"kafka_topic": "text", "kafka_partition": "integer", "kafka_offset": "bigint"}
"""Columns that identify a row's record, with their Postgres types."""

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
class Refused:
    """A record by the coordinates of its rows, and which target refuses a row of it by what."""

    topic: str | None
    partition: int | None
    offset: int | None
    target: str
    detail: str

    def named(self, trial: Target, target: Target) -> "Refused":
        """The same with the name of the target in place of its trial's."""
        own, known = (f"{one.schema}.{one.table}" for one in (trial, target))
        return replace(self, detail=self.detail.replace(own, known))


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

    def note(self, refused: Sequence[Refused]) -> None:
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

    def write_letters(self, most: int | None = None) -> dict[str, int]:
        """Write a dead letter for each, and forget them; how many by the target that refused.

        At most so many bytes are kept of each one's rows, and MOST_A_BATCH of all; None: all.

        The rows stand there as the transform made them. The record as it came is not at hand:
        Kafka is not asked inside a transaction, and a second one after COMMIT could be lost. Its
        coordinates tell where it is.
        """
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
