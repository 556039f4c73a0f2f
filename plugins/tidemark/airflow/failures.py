"""Failures: which errors Airflow may retry."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemark.errors import TidemarkError, by_code
from tidemark.settings.described import ERROR

log = logging.getLogger(__name__)


def names_by_exit_code() -> dict[int, str]:
    """The errors that no retry can help, by the exit code a driver ends with: {10: "FENCED"}.

    An exit code that several errors have is left out if a retry may help one of them.
    """
    kinds = by_code()
    retried = {kind.exit_code for kind in kinds.values() if kind.retry_may_help}
    return {kind.exit_code: code for code, kind in kinds.items() if kind.exit_code not in retried}


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
        keep_code(error.code)
        text = f"{error.code}: {error}"
        if not error.retry_may_help or isinstance(error, final):
            raise AirflowFailException(text) from error
        raise AirflowException(text) from error


def keep_code(code: str) -> None:
    """The running task ends with this error: its XCom `tidemark_error` says so, and the page."""
    try:
        get_current_context()["ti"].xcom_push(ERROR, code)
    except Exception as error:  # the task's own error is what counts
        log.info("the page will not tell %s: %s", code, error)
