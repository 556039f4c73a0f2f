"""Where the rows of each record lie, while the records that targets refuse are searched for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch
from tidemark.staging.moving import Moving
from tidemark.staging.refused_records import Refused
from tidemark.staging.refused_slice import Refusal

Slice = Sequence[int]
"""Places of records."""

_OF_TARGET = sql.SQL("SELECT {name}::text AS target, of_target.* FROM ({places}) AS of_target")
_MAKE = sql.SQL("""
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
            _OF_TARGET.format(name=sql.Literal(one.target.name), places=one.places())
            for one in movings
        ]
        cursor.execute(_MAKE.format(places=table, of_targets=sql.SQL(" UNION ALL ").join(parts)))
        return cls(cursor, table, (cursor.fetchone() or (0,))[0])

    def at(self, target: str, some: Slice) -> sql.Composed:
        """The ctids of a target's rows at these places."""
        return _AT.format(places=self.table, name=sql.Literal(target), which=_which(some))

    def records(self, refused: Mapping[int, Refusal]) -> list[Refused]:
        """The records at the refused places."""
        which = _which(list(refused))
        self.cursor.execute(_RECORDS.format(places=self.table, which=which))
        return [
            Refused(topic, partition, offset, refused[place].target, refused[place].detail)
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
