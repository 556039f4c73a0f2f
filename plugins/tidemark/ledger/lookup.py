"""A lookup: one statement of the ledger in its own transaction, without the region lock."""

from typing import Any

from sqlalchemy import Engine

from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit


class Lookup:
    """Reads the ledger through an engine; no decision uses the result."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def ledger_is_there(self) -> bool:
        """Whether the database has a ledger."""
        return bool(self._rows("ledger_is_there")[0][0])

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with autocommit(self.engine) as cursor:
            cursor.execute(query(name), values)
            return list(cursor.fetchall())
