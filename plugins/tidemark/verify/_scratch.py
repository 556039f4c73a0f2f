"""Scratch: one verification's own tables, into which batches are read again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex

import psycopg2.errors
from psycopg2 import sql
from sqlalchemy import Engine

from tidemark.ledger.queries import PublishedSpan
from tidemark.model.batch import ONLY, STAGING_SCHEMA, Batch, PlannedSpan, Stored
from tidemark.postgres.session import SETTINGS, Cursor, configure, query, try_lock_name, unlock_name
from tidemark.postgres.transaction import autocommit
from tidemark.staging.target import Target

_PREFIX = "#verify_"


@dataclass(frozen=True, slots=True)
class RereadBatches:
    """Batches that one job reads again: all that were published from the first seq to the last."""

    first: int
    last: int
    batch: Batch
    """All their spans, one for each partition; its staging tables are scratch tables."""

    def expected(self, target: Target) -> Target:
        """The table of the rows that a target should hold."""
        base = f"{self.batch.region}_{self.first}_expected"
        table = f"{base}.{target.name}" if target.name != ONLY else base
        return Target(self.batch.staging.schema, table, target.name)

    @property
    def literals(self) -> dict[str, sql.Composable]:
        """The first seq and the last, for a statement."""
        return {"first": sql.Literal(self.first), "last": sql.Literal(self.last)}


@dataclass(frozen=True, slots=True)
class Scratch:
    """The names of one verification's tables."""

    name: str

    def read_again(
        self,
        first: int,
        last: int,
        spans: Sequence[PublishedSpan],
        stored: Stored | None = None,
        set_aside: frozenset[tuple[str, int, int]] = frozenset(),
    ) -> RereadBatches:
        """These batches, with tables that no others have."""
        planned = tuple(PlannedSpan(published.span, published.topic_id) for published in spans)
        name = f"{self.name}_{last - first}"
        batch = Batch(name, 0, first, planned, stored=stored, set_aside=set_aside)
        return RereadBatches(first, last, batch)


@contextmanager
def scratch_of(engine: Engine) -> Iterator[Scratch]:
    """Yield names for this verification alone; drop its tables at the end.

    If it crashes: the tables stay until the next verification, which drops all tables whose
    advisory lock is free.
    """
    name = _PREFIX + token_hex(4)
    with autocommit(engine) as cursor:
        try_lock_name(cursor, name)
        _drop_abandoned(cursor)
        try:
            yield Scratch(name)
        finally:
            _drop(cursor, [table for table in _scratch_tables(cursor) if _owner(table) == name])
            unlock_name(cursor, name)


def _drop_abandoned(cursor: Cursor) -> None:
    tables = _scratch_tables(cursor)
    for owner in {_owner(table) for table in tables}:
        # Our own lock would be granted again, but no table of ours exists yet.
        if try_lock_name(cursor, owner):
            _drop(cursor, [table for table in tables if _owner(table) == owner])
            unlock_name(cursor, owner)


def _scratch_tables(cursor: Cursor) -> list[str]:
    cursor.execute(query("scratch_tables"))
    return [table for (table,) in cursor.fetchall()]


def _owner(table: str) -> str:
    return table[: len(_PREFIX) + 8]


def _drop(cursor: Cursor, tables: list[str]) -> None:
    """Best effort: a table that a dying worker still holds is left for the next verification."""
    configure(cursor, {"lock_timeout": "5s"}, is_local=False)
    for table in tables:
        identifier = sql.Identifier(STAGING_SCHEMA, table)
        with suppress(psycopg2.errors.LockNotAvailable):
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(identifier))
    configure(cursor, {"lock_timeout": SETTINGS["lock_timeout"]}, is_local=False)
