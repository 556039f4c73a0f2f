"""What the ledger says of an output: reads through a cursor, in the mirror's one snapshot.

Dead letters of a published batch are sent raw, as they were read, with the reason.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tidemark.ledger import rewinds
from tidemark.ledger.errors import DeadLettersToSendDiffer
from tidemark.ledger.kept_dead_letters import bytes_of, headers_of_dead_letter
from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import TopicPartition
from tidemark.model.output import (
    NOTHING_SENT,
    Headers,
    OutputHistory,
    OutputRecord,
    Parts,
    Sent,
    SentSeqs,
    Unsent,
)
from tidemark.model.plan import MAX_BIGINT
from tidemark.postgres.session import Cursor, query


def checkpoint_at(cursor: Cursor, region: str, at: int | None) -> Checkpoint:
    """The merged checkpoint of the head; or, with `at`, the one that a rewind there restores."""
    rows = (
        _merged_checkpoint(cursor, region)
        if at is None
        else rewinds.restored_checkpoint(cursor, region, at)
    )
    offsets = {TopicPartition(r[2], r[3]): r[4] for r in rows if r[2] is not None}
    epoch, seq, sends = (rows[0][0], rows[0][1], rows[0][5]) if rows else (0, 0, None)
    return Checkpoint(region, epoch, seq, offsets, sends=sends or {})


def _merged_checkpoint(cursor: Cursor, region: str) -> list[tuple[Any, ...]]:
    cursor.execute(query("merged_checkpoint"), {"region": region})
    return cursor.fetchall()


def knows(cursor: Cursor, region: str, sent: Sent) -> bool:
    """Whether it is a batch of this ledger, published or rewound; or none at all."""
    if sent == NOTHING_SENT:
        return True
    values = {"region": region, "seq": sent.seq, "uuid": str(sent.uuid)}
    cursor.execute(query("knows_batch"), values)
    return cursor.fetchone() == (True,)


def newest_up_to(cursor: Cursor, region: str, seq: int) -> Sent:
    """The newest batch up to a seq, published or rewound; or none at all."""
    cursor.execute(query("newest_up_to"), {"region": region, "seq": seq})
    return _sent(cursor.fetchone())


def history(cursor: Cursor, region: str) -> OutputHistory:
    """What the ledger knows beside the batches."""
    oldest_seq, sent_seq, _, head_seq = _history(cursor, region)
    was_published = newest_up_to(cursor, region, MAX_BIGINT) != NOTHING_SENT
    return OutputHistory(
        was_published, oldest_seq, sent_seq, newest_up_to(cursor, region, head_seq)
    )


def sent_seqs(cursor: Cursor, region: str) -> SentSeqs:
    """What the ledger knows as sent, and as begun to be sent."""
    _, sent_seq, sending_seq, _ = _history(cursor, region)
    return SentSeqs(sent_seq or 0, sending_seq)


def _history(cursor: Cursor, region: str) -> tuple[int, int | None, int, int]:
    cursor.execute(query("history"), {"region": region})
    return cursor.fetchone() or (0, None, 0, 0)


def unsent(cursor: Cursor, region: str, parts: Parts, sent_seq: int) -> list[Unsent]:
    """The batches that were published after a seq and count, in their order."""
    values = {"region": region, "target": parts.target, "dead_letters": parts.dead_letters}
    cursor.execute(query("unsent"), {**values, "seq": sent_seq})
    return [Unsent(seq, UUID(uuid), *rest) for seq, uuid, *rest in cursor.fetchall()]


def withheld_seqs(cursor: Cursor, region: str) -> list[int]:
    """The published batches that were withheld, as far as checkpoints are retained."""
    cursor.execute(query("withheld_seqs"), {"region": region})
    return [seq for (seq,) in cursor.fetchall()]


def write_sent(cursor: Cursor, region: str, sent: Sent) -> None:
    """The newest batch of this ledger that was read back as sent is this one, or a later one."""
    values = {"region": region, "seq": sent.seq, "uuid": str(sent.uuid)}
    cursor.execute(query("write_sent"), values)


def write_sending(cursor: Cursor, region: str, seq: int) -> None:
    """A Kafka transaction may send batches up to this one."""
    cursor.execute(query("write_sending"), {"region": region, "seq": seq})


def raise_next_seq(cursor: Cursor, region: str, seq: int) -> None:
    """The next batch gets a later seq than this one."""
    cursor.execute(query("raise_next_seq"), {"region": region, "seq": seq})


def forget_sent(cursor: Cursor, region: str, seq: int) -> None:
    """Delete what was kept to send batches up to a seq: none of them is sent again."""
    cursor.execute(query("forget_sent"), {"region": region, "seq": seq})


def _sent(row: tuple[int, str] | None) -> Sent:
    return Sent(row[0], UUID(row[1])) if row else NOTHING_SENT


DETAIL = 300
"""Characters of the detail that are sent."""

ORIGINAL = "original."
"""Begins the name of each of the record's own headers: no other one begins so."""

_NEXT = "FETCH FORWARD 500 FROM tidemark_letters"


def sent_dead_letters(
    cursor: Cursor, region: str, batch: Unsent, topic: str
) -> Iterator[OutputRecord]:
    """One record for each dead letter of the batch, also for those that became rows since.

    Raises:
        Refused: they are not as many as the ledger counted.
    """
    found, common = 0, batch.headers(region)
    cursor.execute(query("sent_dead_letters"), {"region": region, "seq": batch.seq})
    cursor.execute(_NEXT)
    while rows := cursor.fetchall():
        for *why, key, value, headers in rows:
            found += 1
            yield OutputRecord(
                topic,
                bytes_of(key),
                bytes_of(value),
                (*common, *_dead_letter_headers(*why), *_original(headers)),
            )
        cursor.execute(_NEXT)
    cursor.execute("CLOSE tidemark_letters")
    if found != batch.dead_letters:
        raise DeadLettersToSendDiffer(
            region=region, seq=batch.seq, published=batch.dead_letters, found=found
        )


def _dead_letter_headers(
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
        *_whole(bytes_of(digest), whole_bytes),
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
    return tuple((f"{ORIGINAL}{key}", value) for key, value in headers_of_dead_letter(headers))
