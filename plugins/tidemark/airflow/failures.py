"""Failures: which errors Airflow may retry."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemark.errors import TidemarkError, by_code

RETRY_MAY_HELP = 1


def names_by_exit_code() -> dict[int, str]:
    """The errors that no retry can help, by the exit code a driver ends with: {10: "FENCED"}."""
    return {kind.exit_code: code for code, kind in by_code().items() if not _may_help(kind)}


@contextmanager
def as_airflow_failure(*final: type[TidemarkError]) -> Iterator[None]:
    """Turn an expected error into the Airflow failure that retries, or doesn't, as it should.

    Raises:
        AirflowFailException: no retry: the exit code says so, or the error is one of `final`.
        AirflowException: a retry may help.
    """
    try:
        yield
    except TidemarkError as error:
        text = f"{error.code}: {error}"
        if not _may_help(type(error)) or isinstance(error, final):
            raise AirflowFailException(text) from error
        raise AirflowException(text) from error


def _may_help(kind: type[TidemarkError]) -> bool:
    return kind.exit_code == RETRY_MAY_HELP or kind.retry_may_help
