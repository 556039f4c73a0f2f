"""Asking the ledgers of many regions: each ledger once, all at the same time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import event

from tidemark.errors import TidemarkError
from tidemark.ledger.history import Standing
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.starts import NO_STARTS, Starts, StartsLookup
from tidemark.ledger.timeline import Timeline
from tidemark.model.offsets import Offsets
from tidemark.page.question import Given, connection
from tidemark.page.seen import SeenRegion
from tidemark.postgres.session import configure
from tidemark.runs.region import ledger_of

STATEMENT_SECONDS = 5
"""How long a page waits for one statement: a table may be locked."""
_GONE_SECONDS = 2
"""After which Postgres ends the statement of one that has been killed."""

_SIDE_BY_SIDE = 8
_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class LedgerAnswer:
    """What a ledger says of a region."""

    standing: Standing | None = None
    """None: it never opened there, or there is a problem."""
    problem: TidemarkError | None = None
    starts: Starts = NO_STARTS


@contextmanager
def opened(conn_id: str, given: Given) -> Iterator[Ledger | None]:
    """The ledger behind a warehouse connection; None: its database holds none."""
    with ledger_of(connection(given, conn_id)) as ledger:
        impatient(ledger)
        yield ledger if ledger.ledger_is_there() else None


def impatient(ledger: Ledger, seconds: int = STATEMENT_SECONDS) -> None:
    """Bound each statement of the ledger's sessions."""
    limit = {
        "statement_timeout": f"{seconds}s",
        "client_connection_check_interval": f"{_GONE_SECONDS}s",
    }

    @event.listens_for(ledger.engine, "connect")
    def _limit(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            configure(cursor, limit, is_local=False)


def standings(regions: Iterable[SeenRegion], given: Given) -> list[tuple[SeenRegion, LedgerAnswer]]:
    """Each region with its ledger's answer, in their order."""
    wanted = list(regions)
    found = _ask(wanted, given, _told_of)
    return [(seen, _answer(found[seen.pipeline.warehouse], seen.name)) for seen in wanted]


def _told_of(timeline: Timeline, names: list[str]) -> dict[str, LedgerAnswer]:
    told = {one.region: one for one in timeline.standings(names)}
    starts = StartsLookup(timeline.engine).starts(names)
    return {
        name: LedgerAnswer(told.get(name), starts=starts.get(name, NO_STARTS)) for name in names
    }


def next_offsets(regions: Iterable[SeenRegion], given: Given) -> list[tuple[SeenRegion, Offsets]]:
    """Each region with where its ledger stands; a ledger that can't be asked leaves them out.

    One that never opened stands nowhere.
    """
    wanted = list(regions)
    found = _ask(wanted, given, lambda timeline, names: timeline.next_offsets(names))
    told = ((seen, found[seen.pipeline.warehouse]) for seen in wanted)
    return [(seen, answer.get(seen.name, {})) for seen, answer in told if isinstance(answer, dict)]


def _answer(told: dict[str, LedgerAnswer] | TidemarkError, name: str) -> LedgerAnswer:
    if isinstance(told, TidemarkError):
        return LedgerAnswer(problem=told)
    return told.get(name, LedgerAnswer())


def _ask(
    regions: list[SeenRegion], given: Given, ask: Callable[[Timeline, list[str]], dict[str, _Told]]
) -> Mapping[str, dict[str, _Told] | TidemarkError]:
    """By warehouse connection: the answer, or why there is none."""
    names: dict[str, list[str]] = {}
    for seen in regions:
        names.setdefault(seen.pipeline.warehouse, []).append(seen.name)

    def answer_of(conn_id: str) -> dict[str, _Told] | TidemarkError:
        try:
            with opened(conn_id, given) as ledger:
                return ask(Timeline(ledger.engine), names[conn_id]) if ledger else {}
        except TidemarkError as error:
            return error

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return dict(zip(names, pool.map(answer_of, names), strict=True))
