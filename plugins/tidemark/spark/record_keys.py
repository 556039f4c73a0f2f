"""What the keys of records tell of change events: which columns a source sends of any row.

Of a row that is deleted, Debezium writes an empty text, zero or the like for a column that is
NOT NULL and that the source did not send. The record's key holds the columns that it always sends.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from tidemark.decode import Decoded, Reason, Rejected
from tidemark.decode.port import OldKey

_EMPTY: tuple[Any, ...] = ("", b"", 0, date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), [], {})


def document(data: bytes | None) -> Mapping[str, Any]:
    """A JSON object, or the payload beside its schema; empty where it is none."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict) and isinstance(found.get("payload"), dict):
        found = found["payload"]
    return found if isinstance(found, dict) else {}


def without_untold(
    decoded: Decoded, records: Sequence[Message], wanted: OldKey, columns: Sequence[str]
) -> Decoded:
    """The same; rejected are deletions whose key may be what Debezium writes for a column unsent.

    `columns` are those of the source's row. Without a key that is a JSON object nothing is known.
    """
    deleted = pc.indices_nonzero(decoded.rows["deleted"])
    rows = decoded.rows.select(list(columns)).take(deleted).to_pylist()
    bad = dict[int, Rejected]()
    for index, row in zip(decoded.kept.take(deleted).to_pylist(), rows, strict=True):
        sent = document(records[index].key())
        if name := _untold(row, wanted, sent):
            bad[index] = Rejected(index, Reason.OLD_KEY_UNKNOWN, _detail(name, sent))
    if not bad:
        return decoded
    stays = pa.array([index not in bad for index in decoded.kept.to_pylist()])
    rejected = sorted([*decoded.rejected, *bad.values()], key=lambda one: one.index)
    return Decoded(decoded.rows.filter(stays), decoded.kept.filter(stays), rejected)


def _untold(row: Mapping[str, Any], wanted: OldKey, sent: Mapping[str, Any]) -> str | None:
    """The first column of the key that may be unsent; None if any that need not be sent was."""
    others = [name for name in row if name not in sent]
    if not sent or any(row[name] is not None and row[name] not in _EMPTY for name in others):
        return None
    return next((name for name in wanted.columns if name in others and row[name] is not None), None)


def _detail(name: str, sent: Mapping[str, Any]) -> str:
    return (
        f"before tells nothing but {', '.join(map(repr, sent))}: {name} is what Debezium writes for"
        " a value that the source did not send. Give the source's table REPLICA IDENTITY FULL"
    )[:300]
