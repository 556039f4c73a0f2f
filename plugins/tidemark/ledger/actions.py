"""Actions: what people do to a region besides runs and resets, each with its audit row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg2.extras import Json

from tidemark.postgres.session import Cursor, query


@dataclass(frozen=True, slots=True)
class Order:
    """Who wants it, and why: for the audit row."""

    who: str
    why: str


def write_action(
    cursor: Cursor, region: str, kind: str, order: Order, details: Mapping[str, Any]
) -> None:
    """Leave the audit row, in the transaction that does what it tells of."""
    values = {
        "region": region,
        "kind": kind,
        "requested_by": order.who,
        "why": order.why,
        "details": Json(dict(details)),
    }
    cursor.execute(query("write_action"), values)
