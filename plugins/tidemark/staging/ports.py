"""What staging needs of the ledger's deciding transaction."""

from collections.abc import Mapping
from typing import Protocol

from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch

# ruff: noqa: D102 -- the ledger's methods have the docstrings


class Deciding(Protocol):
    """A ledger transaction that holds the region lock and the current epoch."""

    @property
    def cursor(self) -> Cursor: ...
    def winners(self, batch: Batch) -> list[tuple[int, int]]: ...
    def contributed_rows(self, batch: Batch, target: str) -> int: ...
    def keep_target(self, target: str, schema: str, table: str) -> None: ...
    def keep_key(self, target: str, table: str, forms: Mapping[str, str]) -> None: ...
