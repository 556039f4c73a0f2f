"""The dead letters that a published batch sends: raw, as they were read, and why."""

from base64 import b64encode
from collections.abc import Iterator

from psycopg2.extensions import cursor as Cursor

from tidemark.ledger.errors import LettersToSendDiffer
from tidemark.ledger.letters import headers_of_letter
from tidemark.model.output import Headers, OutputRecord, Unsent
from tidemark.postgres.queries import query

DETAIL = 300
"""Characters of the detail that are sent."""

ORIGINAL = "original."
"""Begins the name of each of the record's own headers: no other one begins so."""

BASE64 = "original-base64."
"""The same, with the name in base64: where it is no UTF-8, or holds a NUL, which cuts a name."""

_NEXT = "FETCH FORWARD 500 FROM tidemark_letters"


def sent_letters(cursor: Cursor, region: str, batch: Unsent, topic: str) -> Iterator[OutputRecord]:
    """One record for each dead letter of the batch, also for those that became rows since.

    Raises:
        Refused: they are not as many as the ledger counted.
    """
    found, common = 0, batch.headers(region)
    cursor.execute(query("sent_letters"), {"region": region, "seq": batch.seq})
    cursor.execute(_NEXT)
    while rows := cursor.fetchall():
        for *why, key, value, headers in rows:
            found += 1
            yield OutputRecord(
                topic, _bytes(key), _bytes(value), (*common, *_told(*why), *_original(headers))
            )
        cursor.execute(_NEXT)
    cursor.execute("CLOSE tidemark_letters")
    if found != batch.letters:
        raise LettersToSendDiffer(
            region=region, seq=batch.seq, published=batch.letters, found=found
        )


def _told(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int | None,
    reason: str,
    detail: str,
    digest: memoryview | None,
    whole_bytes: int | None,
) -> Headers:
    """Where the record stands, why it is no row, and how long it is where it is cut."""
    timestamp = None if timestamp_ms is None else str(timestamp_ms).encode()
    return (
        ("topic", topic.encode()),
        ("partition", str(partition).encode()),
        ("offset", str(offset).encode()),
        ("timestamp", timestamp),
        ("reason", reason.encode()),
        ("detail", detail[:DETAIL].encode()),
        *_whole(_bytes(digest), whole_bytes),
    )


def _whole(digest: bytes | None, size: int | None) -> Headers:
    """Nothing where key, value and headers are the record's own."""
    if size is None or digest is None:
        return ()
    return ("whole-bytes", str(size).encode()), ("whole-sha256", digest.hex().encode())


def _original(headers: list[dict[str, object]] | None) -> Headers:
    """The record's own headers in order; one that says so if the client could not give them."""
    if headers is None:
        return (("original-headers", b"unknown"),)
    return tuple((_named(key), value) for key, value in headers_of_letter(headers))


def _named(key: str | bytes) -> str:
    if isinstance(key, str) and "\0" not in key:
        return f"{ORIGINAL}{key}"
    return BASE64 + b64encode(key.encode() if isinstance(key, str) else key).decode()


def _bytes(value: memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)
