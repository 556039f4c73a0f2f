"""The regions of the torture: what each writes, and what of it must hold at rest."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg2
from tests.faults.region import FaultRegion, compared
from tests.support.region import ask
from tests.support.sent import SentRecord, sent_to
from tests.support.waiting import until
from tests.torture.journal import Acked, missing

AWAY = (psycopg2.OperationalError, psycopg2.InterfaceError)
"""What psycopg2 raises if Postgres does not answer."""
BACK = 12
"""A rewind goes so many published batches back."""


@dataclass
class TorturedRegion(FaultRegion):
    """A region whose servers fail and whose topic grows all the while."""

    direct: dict[str, Any] = field(default_factory=dict)
    """The warehouse, for who only looks: no proxy stands in front of it."""

    def look(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the warehouse directly."""
        return ask(self.direct, statement, values)

    def finds(self, statement: str, *values: Any) -> bool:
        """Whether there is such a row; not if Postgres is away, or nobody has migrated yet."""
        with suppress(*AWAY, psycopg2.errors.UndefinedTable):
            return bool(self.look(statement, *values))
        return False

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The same, as soon as Postgres answers: such a question is no part of what is tried."""
        found: list[list[tuple[Any, ...]]] = []

        def has_answer() -> bool:
            with suppress(*AWAY):
                found.append(self.look(statement, *values))
            return bool(found)

        until(has_answer, 300)
        return found[0]

    @contextmanager
    def snapshot(self) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
        """Several questions see one moment."""
        with closing(psycopg2.connect(**self.direct)) as connection:
            connection.set_session("REPEATABLE READ", readonly=True)
            with connection, connection.cursor() as cursor:
                yield partial(_asked, cursor)

    @property
    def tables(self) -> list[str]:
        """Every table that its rows go to."""
        return [
            one["table"] for one in self.file.get("targets", {"": self.file.get("target")}).values()
        ]

    def sent(self) -> list[SentRecord]:
        """What the output topic holds."""
        return sent_to(self.kafka, self.sink)

    def rewind(self) -> None:
        """A rewind by hand, a few batches back."""
        published = self.sql(
            "SELECT seq FROM tidemark.batches WHERE state = 'published'"
            f" ORDER BY seq DESC LIMIT {BACK}"
        )
        if published:
            accepted = ["accept_resend"] if "output" in self.settings else []
            self.reset(to=published[-1][0], overrides=accepted)


@dataclass
class IdRegion(TorturedRegion):
    """Appends values as they are: those of a producer that nobody here wrote."""

    @property
    def file(self) -> dict[str, Any]:
        """A row holds the record's value, undecoded."""
        return super().file | {"decode": {"format": "raw"}}

    def rows(self) -> list[Any]:
        """Partition, offset and value of every row."""
        if not self.sql("SELECT 1 WHERE to_regclass('public.numbers') IS NOT NULL"):
            return []
        return self.sql(
            "SELECT kafka_partition, kafka_offset, convert_from(value, 'UTF8') FROM public.numbers"
        )

    def faults(self) -> Iterator[str]:
        """What differs from the topic, read without Tidemark; drift and leftovers."""
        topic = [(p, o, value.decode()) for p, o, value in self.committed_of(self.topic)]
        yield from compared("rows", topic, self.rows())
        yield from self.unlike_ledger()

    def lost_of(self, acked: list[Acked]) -> list[str]:
        """What Kafka acknowledged to a producer, and is no row, or another one."""
        return list(missing(acked, self.rows()))


def _asked(cursor: Any, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    cursor.execute(statement, values or None)
    return list(cursor.fetchall())
