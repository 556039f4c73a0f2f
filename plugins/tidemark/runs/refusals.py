"""What refused an open stands in the ledger: a doorbell is silent then, and people see it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemark.errors import Fenced, Superseded, TidemarkError
from tidemark.ledger.starts import StartsLookup
from tidemark.postgres.errors import PostgresUnreachable
from tidemark.runs.errors import AnotherRunAtWork
from tidemark.runs.region import ledger_of
from tidemark.settings.connections import Connection
from tidemark.settings.fingerprint import file_fingerprint
from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)


@contextmanager
def refusal_kept(
    pipeline: Pipeline, run_id: str, warehouse: Callable[[], Connection]
) -> Iterator[None]:
    """The ledger knows what ended the open inside, if it took no epoch; the error goes on.

    In a transaction of its own, after that of the open. Where the ledger can't be reached nothing
    is kept. A time-out of the task is kept too; that somebody ended it is not.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, Fenced, Superseded, AnotherRunAtWork):
        raise  # a person ended it, or another run has the epoch
    except BaseException as error:
        if not _is_of_ledger(error):
            _keep(pipeline, run_id, warehouse, error)
        raise


def _keep(
    pipeline: Pipeline, run_id: str, warehouse: Callable[[], Connection], error: BaseException
) -> None:
    name = type(error).__name__
    problem = (error.code, error.case) if isinstance(error, TidemarkError) else (name, name)
    try:
        with ledger_of(warehouse()) as ledger:
            StartsLookup(ledger.engine).keep_refused_open(
                pipeline.region, run_id, problem, file_fingerprint(pipeline)
            )
    except Exception as failed:  # the open's own error is what counts
        log.info("the ledger does not know that the open was refused: %s", failed)


def _is_of_ledger(error: BaseException | None) -> bool:
    """Whether the ledger gave no answer at all: another login would fail as well."""
    while error is not None and not isinstance(error, PostgresUnreachable):
        error = error.__cause__
    return error is not None and error.sqlstate is None
