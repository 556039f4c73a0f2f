"""Upsert a batch whose last rows stand in each other's way: in the order of its records.

One record may free what a later one takes: a value of a unique column, or a row that others of the
table refer to. What their batch is refused for as a whole, records do one after the other. So the
rows go in slice by slice, each as if it were a batch, and a slice that is refused is halved, down
to a single record. One that is refused alone waits: for a record of another partition, or for a
later row of its key, which supersedes it. Pass follows pass as long as that brings any in.
"""

from dataclasses import dataclass

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging import upsert_sql
from tidemark.staging.refusal import is_refusal
from tidemark.staging.refused_places import Slice, halves
from tidemark.staging.upsert_names import Names
from tidemark.staging.upsert_write import write_rows

TRIES = 5000
"""Limit of the slices that may be refused, in all passes: what no order heals is refused then."""

# In the target's own types. A row that changes nothing, as an older one of its key has a greater
# order, is left out; of a record's rows of one key all but the last.
_MAKE = sql.SQL("""
CREATE UNLOGGED TABLE {steps} AS
SELECT {names}, false AS "tidemark deleted", 0::bigint AS "tidemark place",
       0::bigint AS "tidemark next"
FROM {target} WITH NO DATA;
INSERT INTO {steps}
SELECT {names}, "tidemark deleted", "tidemark place",
       lead("tidemark place") OVER (PARTITION BY {key} ORDER BY "tidemark place")
FROM (SELECT DISTINCT ON ({key}, "tidemark place") *
      FROM (SELECT *, coalesce({deleted}, false) AS "tidemark deleted",
                   {is_best} AS "tidemark best",
                   dense_rank() OVER (ORDER BY {coordinates}) AS "tidemark place"
            FROM ({staged}) AS r
            WINDOW so_far AS (PARTITION BY {key} ORDER BY {coordinates})) AS placed
      WHERE "tidemark best" ORDER BY {key}, "tidemark place", {best_first}) AS of_records;
CREATE INDEX ON {steps} ("tidemark place");
CREATE INDEX ON {steps} ({key});
ANALYZE {steps}
""")
_COORDINATES = sql.SQL('kafka_topic COLLATE "C", kafka_partition, kafka_offset')
# Of each key the last row of a slice.
_TAKEN = sql.SQL("""(
    l."tidemark place" BETWEEN {first} AND {end} AND coalesce(l."tidemark next" > {end}, true)
)""")
_ROWS = sql.SQL("""
SELECT count(*) FROM {last} AS l WHERE NOT l."tidemark deleted" AND {taken}
""")
_DONE = sql.SQL("""
DELETE FROM {last} AS l USING (SELECT {key} FROM {last} AS l WHERE {taken}) AS t
WHERE {match} AND l."tidemark place" <= {end}
""")
_PLACES = sql.SQL('SELECT DISTINCT "tidemark place" FROM {last} ORDER BY 1')


def apply_in_order(cursor: Cursor, names: Names, *, deletes: bool) -> int | None:
    """The keys are what the last rows say; how many have a row. None: some are still refused.

    `names` are those of the upsert.
    """
    cursor.execute(_ROWS.format(**{**names, "taken": sql.SQL("true")}))
    (rows,) = cursor.fetchone() or (0,)
    try:
        steps = _Steps.of(cursor, names, deletes=deletes)
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        return None  # a superseded row has a value that is none of its column's type
    if not steps.apply():
        return None
    cursor.execute(sql.SQL("DROP TABLE {last}").format(**steps.names))
    return int(rows - steps.missing)


@dataclass(slots=True)
class _Steps:
    """The batch's rows by the places of their records; those that went in are gone from it."""

    cursor: Cursor
    names: Names
    """As of an upsert whose last rows are those that are left."""
    deletes: bool
    tries: int
    missing: int = 0
    """Rows that the target took and does not have: a trigger keeps them out."""

    @classmethod
    def of(cls, cursor: Cursor, names: Names, *, deletes: bool) -> "_Steps":
        """All rows that change something."""
        cursor.execute(_MAKE.format(**names, coordinates=_COORDINATES))
        of_steps = {**names, "last": names["steps"]}
        if "stored_is_newer" in names:
            cursor.execute(upsert_sql.NEWER.format(**of_steps))
            cursor.execute(upsert_sql.NEWER_DELETED.format(**of_steps))
        return cls(cursor, of_steps, deletes, TRIES)

    def apply(self) -> bool:
        """Pass after pass, until all went in or a pass brings none in."""
        left = self._places()
        slices = halves(left)
        while left and self.tries > 0:
            known = len(left)
            self._pass(slices)
            left = self._places()
            if len(left) == known:
                break
            slices = [left]
        return not left

    def _pass(self, slices: list[Slice]) -> None:
        while slices and self.tries > 0:
            some = slices.pop()
            if self._applied(some):
                continue
            self.tries -= 1
            if len(some) > 1:
                slices += halves(some)

    def _applied(self, some: Slice) -> bool:
        """Whether the rows of these places went in."""
        first, end = sql.Literal(some[0]), sql.Literal(some[-1])
        names = {**self.names, "taken": _TAKEN.format(first=first, end=end), "end": end}
        self.cursor.execute("SAVEPOINT step")
        try:
            missing = self._write(names)
        except psycopg2.Error as error:
            if not is_refusal(error):
                raise
            self.cursor.execute("ROLLBACK TO SAVEPOINT step; RELEASE SAVEPOINT step")
            return False
        self.cursor.execute("RELEASE SAVEPOINT step")
        self.cursor.execute(_DONE.format(**names))
        self.missing += missing
        return True

    def _write(self, names: Names) -> int:
        self.cursor.execute(_ROWS.format(**names))
        (rows,) = self.cursor.fetchone() or (0,)
        if self.deletes:
            self.cursor.execute(upsert_sql.DELETE.format(**names))
        return int(rows - write_rows(self.cursor, names))

    def _places(self) -> list[int]:
        self.cursor.execute(_PLACES.format(**self.names))
        return [place for (place,) in self.cursor.fetchall()]
