"""What a refusing Postgres means, judged by SQLSTATE and constraint name, never by text."""

from collections.abc import Callable

import psycopg2
from psycopg2 import errors

from tidemark.errors import TidemarkError
from tidemark.postgres.cases import (
    BatchIsFollowed,
    ChosenLettersGone,
    ClaimsAreNotThePlan,
    EpochIsTaken,
    GroupIsOwned,
    LedgerConstraintViolated,
    LedgerNotMigrated,
    LedgerTablesDiffer,
    LetterIsThere,
    NoRoomInFlight,
    PartitionStandsElsewhere,
    PostgresRightMissing,
    PostgresUnreachable,
    RemovalUnequal,
    SpansOverlap,
    StagedRowsGone,
    TargetIsOwned,
)

NO_ANSWER = (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.InternalError)
"""What psycopg2 raises where the server is gone, gave up, or is a standby."""

BY_CONSTRAINT: dict[str, Callable[..., TidemarkError]] = {
    "moved_rows_equal_contributed": StagedRowsGone,
    "moved_dead_letters_equal_contributed": StagedRowsGone,
    "chosen_letters_are_replayed_or_kept": ChosenLettersGone,
    "partition_stands_at_span_start": PartitionStandsElsewhere,
    "epoch_is_the_expected_one": EpochIsTaken,
    "unpublished_batches_are_in_flight": NoRoomInFlight,
    "batches_follow_one_another": BatchIsFollowed,
    "published_batch_is_claimed": ClaimsAreNotThePlan,
    "spans_do_not_overlap": SpansOverlap,
    "a_record_is_a_dead_letter_once": LetterIsThere,
    "removed_rows_equal_published": RemovalUnequal,
    "removed_dead_letters_equal_published": RemovalUnequal,
    "target_belongs_to_one_region": TargetIsOwned,
    "group_belongs_to_one_region": GroupIsOwned,
}


def refusal(error: psycopg2.Error) -> TidemarkError:
    """The error in our words. Its DETAIL may hold data of a row and is left out."""
    cause = error.diag.message_primary or type(error).__name__
    if isinstance(error, errors.InsufficientPrivilege):
        return PostgresRightMissing(cause=cause)
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn)):
        return LedgerNotMigrated(cause=cause)
    constraint = error.diag.constraint_name or ""
    if constraint in BY_CONSTRAINT:
        return BY_CONSTRAINT[constraint](constraint=constraint)
    if isinstance(error, psycopg2.IntegrityError):
        return LedgerConstraintViolated(cause=cause)
    return LedgerTablesDiffer(cause=cause)


def unreachable(error: psycopg2.Error) -> PostgresUnreachable:
    """The same fact in our words."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return PostgresUnreachable(cause=lines[0], sqlstate=error.pgcode)
