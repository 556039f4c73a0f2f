"""What a refusing Postgres means, judged by SQLSTATE and constraint name, never by text."""

import psycopg2
from psycopg2 import errors

from tidemark.errors import Fenced, Refused, StagingLost, TidemarkError, Unreachable

LOST = "{}: staged rows are gone or changed, as after a crash of Postgres. Nothing was published;"
BY_CONSTRAINT: dict[str, tuple[type[TidemarkError], str]] = {
    "moved_rows_equal_contributed": (StagingLost, LOST + " the next run drains the batch again"),
    "moved_dead_letters_equal_contributed": (
        StagingLost,
        LOST + " the next run drains the batch again",
    ),
    "partition_stands_at_span_start": (
        Fenced,
        "{}: a partition does not stand at the start of its span; someone else moved it",
    ),
    "epoch_is_the_expected_one": (Fenced, "{}: the epoch was taken by another"),
    "one_unpublished_batch": (Fenced, "{}: the region has an unpublished batch already"),
    "spans_do_not_overlap": (
        TidemarkError,
        "{}: a planned span was read before; the ledger was edited by hand?",
    ),
    "a_record_is_a_dead_letter_once": (
        TidemarkError,
        "{}: a record is a dead letter already; the ledger was edited by hand?",
    ),
    "target_belongs_to_one_region": (
        Refused,
        "{}: the target belongs to another region; name another target.table",
    ),
    "group_belongs_to_one_region": (
        Refused,
        "{}: the consumer group belongs to another region; set kafka.group to one of its own",
    ),
}


def refusal(error: psycopg2.Error) -> TidemarkError:
    """The error in our words. Its DETAIL may hold data of a row and is left out."""
    if isinstance(error, errors.InsufficientPrivilege):
        return Refused(
            f"Postgres: {_first_line(error)}; the role needs USAGE and CREATE on schemas tidemark"
            " and tidemark_staging and all rights on the ledger's tables (docs/operating.md)"
        )
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn)):
        return Refused(f"Postgres: {_first_line(error)}; run `tidemark migrate PIPELINE` first")
    constraint = error.diag.constraint_name or ""
    kind, text = BY_CONSTRAINT.get(constraint, (TidemarkError, "{} refused a ledger row"))
    return kind(text.format(constraint or f"Postgres ({_first_line(error)})"))


def unreachable(error: psycopg2.Error) -> Unreachable:
    """The same fact in our words; psycopg2's first line names host and port, never a password."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return Unreachable(f"Postgres: {lines[0]}; check the target connection and that it is up")


def _first_line(error: psycopg2.Error) -> str:
    return error.diag.message_primary or type(error).__name__
