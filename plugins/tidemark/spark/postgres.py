"""Postgres as a task meets it: its errors in our words, without the weight of an ORM to import."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
import psycopg2.errors

from tidemark.errors import StagingLost
from tidemark.postgres.errors import unreachable


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Inside, what a task can't do anything about comes out as one of our errors.

    Raises:
        Unreachable: Postgres does not answer or refuses the login.
        StagingLost: a staging table is gone.
    """
    try:
        yield
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise unreachable(error) from error
    except psycopg2.errors.UndefinedTable as error:
        raise StagingLost(
            "the batch's staging tables are gone: a newer epoch has discarded the batch; the next"
            " run plans it anew"
        ) from error
