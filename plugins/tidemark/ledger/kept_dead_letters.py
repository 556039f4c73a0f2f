"""Dead letters as the ledger keeps them: one by one, and all of them out of one snapshot."""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Engine

from tidemark.model.batch import DeadLetter
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import transaction

ALL_DEAD_LETTERS = DeadLetterFilter()

_NEXT = "FETCH FORWARD 500 FROM dead_letters_export"


@dataclass(frozen=True, slots=True)
class KeptDeadLetter:
    """A dead letter of the ledger; headers as the stored JSON array, values in base64."""

    seq: int
    dead_letter: DeadLetter
    headers: list[dict[str, Any]] | None
    """None: the client could not give them."""
    refused_rows: list[Any] | dict[str, list[Any]] | str | None
    """The record's rows as the transform made them, if the target refused them; else None. A text
    begins their JSON, where they are cut."""
    published_at: datetime
    """When its batch was."""
    replayed_seq: int | None
    """The batch that made rows of it; None: none did."""


@dataclass(frozen=True, slots=True)
class Export:
    """The dead letters that were meant when the export began, and how many they are."""

    count: int
    dead_letters: Iterator[KeptDeadLetter]


_NOTHING = Export(0, iter(()))


@contextmanager
def export(
    engine: Engine, region: str, meant: DeadLetterFilter = ALL_DEAD_LETTERS
) -> Iterator[Export]:
    """Yield all that are meant, in the order of their records; few are in memory at a time."""
    with transaction(engine, "export") as cursor:
        cursor.execute(query("export_dead_letters"), {"region": region, **of_filter(meant)})
        yield _export(cursor)


@contextmanager
def replayable(
    engine: Engine, region: str, meant: DeadLetterFilter, limit: int
) -> Iterator[tuple[Export, int]]:
    """Those that a replay would choose, and how many more are meant that none can take."""
    values = {"region": region, "limit": limit, **of_filter(meant)}
    with transaction(engine, "export") as cursor:
        others = _unreplayable(cursor, values)
        cursor.execute(query("replayable"), values)
        yield _export(cursor), others


def _unreplayable(cursor: Cursor, values: dict[str, Any]) -> int:
    cursor.execute(query("unreplayable"), values)
    (found,) = cursor.fetchone() or (0,)
    return int(found)


def of_filter(meant: DeadLetterFilter) -> dict[str, Any]:
    """The parameters of a statement that has this filter; null is no limit."""
    return {
        "reasons": list(meant.reasons) or None,
        "since": meant.since,
        "until": meant.until,
        "only_topic": meant.partition.topic if meant.partition else None,
        "only_partition": meant.partition.partition if meant.partition else None,
    }


def kept(row: tuple[Any, ...]) -> KeptDeadLetter:
    """A dead letter of a row that a statement has found."""
    seq, topic, partition, offset, timestamp_ms, key, value, headers, *rest = row
    reason, detail, digest, whole_bytes, *rest = rest
    record = topic, partition, offset, timestamp_ms, bytes_of(key), bytes_of(value), ()
    dead_letter = DeadLetter(*record, reason, detail, bytes_of(digest), whole_bytes)
    return KeptDeadLetter(seq, dead_letter, headers, *rest[:3])


def _export(cursor: Cursor) -> Export:
    remaining = _fetched(cursor)
    first = next(remaining, None)
    return Export(first[-1], map(kept, chain([first], remaining))) if first else _NOTHING


def _fetched(cursor: Cursor) -> Iterator[tuple[Any, ...]]:
    cursor.execute(_NEXT)
    while found := cursor.fetchall():
        yield from found
        cursor.execute(_NEXT)


def headers_of_dead_letter(headers: list[dict[str, Any]]) -> list[tuple[str, bytes | None]]:
    """A record's headers from the JSON of its dead letter."""
    return [(one["key"], _decoded(one["value"])) for one in headers]


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def bytes_of(value: bytes | memoryview | None) -> bytes | None:
    """Convert what psycopg2 gives for a bytea to bytes."""
    return None if value is None else bytes(value)
