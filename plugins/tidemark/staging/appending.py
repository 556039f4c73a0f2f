"""Append: every staged row of a batch goes into the target; inside the publish."""

from collections.abc import Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Moved, Staging
from tidemark.staging.column import Column
from tidemark.staging.move import insert_rows, of_winners
from tidemark.staging.target import Target

_PLACES = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, staged.ctid AS at
FROM {rows} AS staged WHERE {chosen}
""")
_AT = sql.SQL("staged.ctid = ANY ({at})")


class Appending:
    """One batch and the target that it is appended to."""

    is_final = True

    def __init__(
        self,
        cursor: Cursor,
        batch: Batch,
        target: Target,
        columns: Sequence[Column],
        winners: Sequence[tuple[int, int]],
    ) -> None:
        """`columns` with what of the target parses their texts, see `parsed`."""
        self.target = target
        self._cursor = cursor
        self._seq = batch.seq
        self._staging: Staging = batch.staging.of_target(target.name)
        self._columns = columns
        self._winners = of_winners(winners)
        self._chosen: sql.Composable = self._winners

    def prepare(self, wanted: sql.Composable) -> None:
        """Leave out records that are not wanted."""
        self._chosen = sql.SQL("{} AND {}").format(self._winners, wanted)

    def places(self) -> sql.Composed:
        """The staged rows."""
        rows = sql.Identifier(self._staging.schema, self._staging.rows)
        return _PLACES.format(rows=rows, chosen=self._chosen)

    def apply(self, at: sql.Composable | None = None) -> int:
        """Insert the rows; how many went in.

        Raises:
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        chosen = self._chosen if at is None else _AT.format(at=at)
        return insert_rows(
            self._cursor, self._staging, self.target, self._columns, self._seq, chosen
        )

    def finish(self, written: int) -> Moved:
        """Nothing is left to do."""
        return Moved(written)

    def trial(self) -> "Appending":
        """The rows as they are."""
        return self
