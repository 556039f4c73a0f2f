"""Dead letters from outside: exported to a file, or purged with an audit row.

An export is whole or not there, and overwrites nothing. A purge takes those of old batches.
"""

import base64
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkstemp
from typing import Any, TextIO

import psycopg2

from tidemark.admin.errors import DeadLettersMiscounted, ExportFileUnwritable
from tidemark.deadline import Deadline
from tidemark.errors import TidemarkError
from tidemark.ledger import removing
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import KeptDeadLetter, export
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.plain import plain
from tidemark.runs.region import Region, region_of
from tidemark.runs.retire import TIDYING_SECONDS
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)

_THERE = "it exists and is not overwritten; name another file"


Move = Callable[[int, int], None]
"""Takes how many are written and how many there are."""

_SHOWN_EVERY = 500


def export_dead_letters(
    pipeline: Pipeline, connections: Connections, file: Path, meant: DeadLetterFilter, move: Move
) -> int:
    """The file holds all dead letters that are meant, one JSON object a line; return how many.

    If it crashes: no file has the name; a hidden one beside it may be left.

    Raises:
        InvalidSettings: something has the name already, or no file can be made there.
        LedgerInconsistent: fewer or more came than the same snapshot counted.
    """
    with region_of(pipeline, connections) as region, _new(file) as out:
        with export(region.ledger.engine, region.name, meant) as found:
            done = 0
            for done, one in enumerate(found.dead_letters, 1):
                out.write(json.dumps(as_line(one)) + "\n")
                if done % _SHOWN_EVERY == 0:
                    move(done, found.count)
            if done != found.count:
                raise DeadLettersMiscounted(region=region.name, came=done, counted=found.count)
        return done


def as_line(one: KeptDeadLetter) -> dict[str, Any]:
    """All that the ledger has of a dead letter, in JSON's own types."""
    dead_letter = one.dead_letter
    return {
        "seq": one.seq,
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "timestamp_ms": dead_letter.timestamp_ms,
        "published_at": plain(one.published_at),
        "reason": dead_letter.reason,
        "detail": dead_letter.detail,
        "key_text": _utf8(dead_letter.key),
        "key_base64": _base64(dead_letter.key),
        "value_text": _utf8(dead_letter.value),
        "value_base64": _base64(dead_letter.value),
        "headers": one.headers,
        "refused_rows": one.refused_rows,
        "sha256": None if dead_letter.hash is None else dead_letter.hash.hex(),
        "whole_bytes": dead_letter.whole_bytes,
        "replayed_seq": one.replayed_seq,
    }


@contextmanager
def _new(file: Path) -> Iterator[TextIO]:
    """A file for our eyes alone that takes the name once it is whole and on disk."""
    if os.path.lexists(file):
        raise ExportFileUnwritable(file=file, cause=_THERE)
    try:
        descriptor, unfinished = mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise ExportFileUnwritable(file=file, cause=error.strerror) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.link(unfinished, file)  # unlike a rename it overwrites nothing
    except FileExistsError:
        raise ExportFileUnwritable(file=file, cause=_THERE) from None
    except OSError as error:
        raise ExportFileUnwritable(file=file, cause=error.strerror) from error
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def _utf8(data: bytes | None) -> str | None:
    """The text that the bytes are exactly; None where they are none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a purge removed, or in a dry run (applied false) would remove."""

    region: str
    applied: bool
    until: datetime
    """Batches published before it; by the server's clock."""
    dead_letters: int
    by_reason: dict[str, int]
    left: dict[str, int]
    """Those that it does not remove, for `verify` needs the rows that the target refused."""
    unsent: int = 0
    """Those that it does not remove before they were sent to `dead_letters.topic`."""


def purge_dead_letters(
    pipeline: Pipeline,
    connections: Connections,
    meant: DeadLetterFilter,
    age: timedelta,
    order: Order | None,
    move: Callable[[int, int], None] = lambda done, of: None,
) -> PurgeReport:
    """Dead letters of batches older than `age` are gone, or without an order counted.

    If it crashes: those that are gone are counted in the ledger and have an audit row.

    Raises:
        Refused: the region never opened, or a rewind is under way.
    """
    with region_of(pipeline, connections) as region:
        region.state()
        engine = region.ledger.engine
        until = region.ledger.queries.now() - age
        meant = replace(meant, until=min(until, meant.until or until))
        found, left, unsent = removing.purgeable(engine, region.name, meant)
        if order:
            expected, found = found, Counter[str]()
            while gone := removing.purge(engine, region.name, meant, order):
                found += gone
                move(found.total(), expected.total())
        by_reason = dict(found.most_common())
        return PurgeReport(
            region=region.name,
            applied=order is not None,
            until=meant.until or until,
            dead_letters=found.total(),
            by_reason=by_reason,
            left=left,
            unsent=unsent,
        )


def purge_old(region: Region) -> None:
    """Purge what is older than `dead_letters.retain_days`; best effort, for a bounded time."""
    days = region.pipeline.dead_letters.retain_days
    if days is None:
        return
    engine, deadline = region.ledger.engine, Deadline(TIDYING_SECONDS)
    order = Order("retention", f"dead_letters.retain_days: {days}")
    try:
        meant = DeadLetterFilter(until=region.ledger.queries.now() - timedelta(days=days))
        while removing.purge(engine, region.name, meant, order) and not deadline.is_past:
            pass
    except (TidemarkError, psycopg2.Error) as error:
        log.warning("old dead letters were not purged: %s", error)
