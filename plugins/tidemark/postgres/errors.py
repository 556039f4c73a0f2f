"""What a Postgres can refuse, give up or leave unanswered.

It is judged by SQLSTATE and constraint name, never by text.
"""

from collections.abc import Callable

import psycopg2
from psycopg2 import errorcodes, errors

from tidemark.errors import (
    CommitRefused,
    Fenced,
    InvalidSettings,
    LedgerInconsistent,
    OutcomeUnknown,
    Refused,
    StagingLost,
    TidemarkError,
    Unreachable,
)

EDITED = (
    "; the ledger was edited by hand, or only a part of it was restored. Nothing was written."
    " `tidemark verify` names the place; restore ledger and target from the same backup"
)
STANDBY = (
    "the connection leads to a standby, or the database is read-only. Point it at the primary, or"
    " name all servers in its host and set target_session_attrs to read-write in its extra"
)
GAVE_UP = {
    errorcodes.QUERY_CANCELED: "it took longer than statement_timeout, or somebody cancelled it;"
    " nothing of it was kept. Postgres' log names the slow statement; a large rewind needs an"
    " index on batch_seq (docs/administration.md)",
    errorcodes.LOCK_NOT_AVAILABLE: "another session held the lock for longer than lock_timeout;"
    " nothing of it was kept. Find the holder in pg_locks and pg_stat_activity, then try again",
    errorcodes.DEADLOCK_DETECTED: "another session and this one waited for each other; nothing of"
    " it was kept. Try again; if it comes back, find in Postgres' log who else locks these tables",
    errorcodes.READ_ONLY_SQL_TRANSACTION: STANDBY,
    errorcodes.FEATURE_NOT_SUPPORTED: STANDBY,  # of BEGIN READ WRITE
    errorcodes.IDLE_IN_TRANSACTION_SESSION_TIMEOUT: "this process stood still in a transaction for"
    " longer than idle_in_transaction_session_timeout; nothing of it was kept. Try again",
    errorcodes.DISK_FULL: "nothing of it was kept. Free disk space on the server, then try again",
}
"""What a server that does answer could not finish, by SQLSTATE: what to do. A retry may help."""

HINTS = {
    "password authentication failed": "correct login and password of the connection",
    "no password supplied": "give the connection a password",
    "permission denied for database": "GRANT CONNECT ON DATABASE to the connection's login",
    'database "': "correct the connection's schema (the database's name), or create the database",
    'role "': "correct the connection's login, or create the role",
    "no pg_hba.conf entry": "allow this host, user and database in the server's pg_hba.conf",
    "Connection refused": "nothing listens there: start the server, or correct host and port",
    "could not translate host name": "no such host: correct the connection's host",
    "timeout expired": "there was no answer: check host, port and firewall",
}
"""What to do, by a fragment of the client's message. For display alone: psycopg2 gives no SQLSTATE
for a refused login, so nothing may be decided by it, and a retry is not ruled out."""


class PostgresUnreachable(Unreachable):
    """Postgres does not answer, refuses the login, or gave up what was asked."""

    cause: str
    """The first line of the client's message: it names host and port, never a password."""
    sqlstate: str | None

    def __str__(self) -> str:
        return f"Postgres: {self.cause}; {GAVE_UP.get(self.sqlstate or '') or self._hint}"

    @property
    def _hint(self) -> str:
        found = (hint for fragment, hint in HINTS.items() if fragment in self.cause)
        return next(found, "check the target connection and that the server is up")


class PostgresRightMissing(Refused):
    """The role lacks a right."""

    cause: str

    def __str__(self) -> str:
        return (
            f"Postgres: {self.cause}; `tidemark check PIPELINE` names what to grant"
            " (docs/administration.md)"
        )


class LedgerNotMigrated(Refused):
    """A table, column or function of the ledger is not there."""

    cause: str

    def __str__(self) -> str:
        return f"Postgres: {self.cause}; run `tidemark migrate PIPELINE` first"


class LedgerConstraintViolated(LedgerInconsistent):
    """A constraint refuses what no constraint of the ledger refuses by design."""

    cause: str

    def __str__(self) -> str:
        return f"Postgres: {self.cause}{EDITED}"


class LedgerTablesDiffer(LedgerInconsistent):
    """A statement does not fit the tables that it finds."""

    cause: str

    def __str__(self) -> str:
        return (
            f"Postgres: {self.cause}; the tables are not as this version expects;"
            " `tidemark check PIPELINE` tells more"
        )


class StagedRowsGone(StagingLost):
    """Fewer or more rows or dead letters were moved than were contributed."""

    constraint: str

    def __str__(self) -> str:
        return (
            f"{self.constraint}: staged rows are gone or changed, as after a crash of Postgres."
            " Nothing was published: the records must be drained again"
        )


class ChosenDeadLettersGone(StagingLost):
    """Dead letters that a replay has chosen were removed meanwhile."""

    constraint: str

    def __str__(self) -> str:
        return (
            f"{self.constraint}: the dead letters that the replay has chosen are no longer all"
            " there, as after a purge. Nothing was published; replay again"
        )


class StagingDiscarded(StagingLost):
    """The staging table is missing to the task that writes to it."""

    def __str__(self) -> str:
        return (
            "the batch's staging tables are gone: a newer epoch has discarded the batch; the next"
            " run plans it anew"
        )


class PartitionStandsElsewhere(Fenced):
    """Somebody else has moved a partition that this batch has read."""

    constraint: str

    def __str__(self) -> str:
        return (
            f"{self.constraint}: a partition's next offset is not the start of its span; someone"
            " else moved it"
        )


class EpochIsTaken(Fenced):
    """Another open or reset has taken the epoch."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: another open or reset took this epoch"


class NoRoomInFlight(Fenced):
    """The region has as many unpublished batches as its run allows."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: the region has as many unpublished batches as its run allows"


class BatchIsFollowed(Fenced):
    """Another batch follows the batch that this one was to follow."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: another batch already follows the batch before this one"


class ClaimsAreNotThePlan(LedgerInconsistent):
    """The spans of a batch that are claimed are not those that were planned."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: the spans that were claimed are not those of the plan{EDITED}"


class SpansOverlap(LedgerInconsistent):
    """A span is planned of which something was read before."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: a planned span overlaps one that was read before{EDITED}"


class DeadLetterIsThere(LedgerInconsistent):
    """A record that becomes a dead letter is one already."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: a record is a dead letter already{EDITED}"


class RemovalUnequal(Refused):
    """A rewind would remove more or fewer rows or dead letters than were published."""

    constraint: str

    def __str__(self) -> str:
        return (
            f"{self.constraint}: a rewind would remove more or fewer rows than the ledger"
            " published. Nothing was removed; `tidemark verify` names the rows"
        )


class TargetIsOwned(Refused):
    """The target belongs to another region."""

    constraint: str

    def __str__(self) -> str:
        return f"{self.constraint}: the target belongs to another region; name another target.table"


class GroupIsOwned(Refused):
    """The consumer group belongs to another region."""

    constraint: str

    def __str__(self) -> str:
        return (
            f"{self.constraint}: the consumer group belongs to another region; set kafka.group to"
            " one of its own"
        )


class CommitUnanswered(OutcomeUnknown):
    """COMMIT was sent, and the connection was lost before its answer."""

    transaction: str

    def __str__(self) -> str:
        return f"{self.transaction}: the connection was lost during COMMIT"


class CommitRolledBack(CommitRefused):
    """COMMIT was answered with another tag."""

    transaction: str
    answer: str | None

    def __str__(self) -> str:
        return f"{self.transaction}: Postgres answered COMMIT with {self.answer}"


class PostgresKeysRefused(InvalidSettings):
    """A connection's extra has keys that do not reach libpq, such as those of a cloud's tokens."""

    conn_id: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"connection {self.conn_id!r}: {', '.join(self.keys)} has no effect here; remove it"
            " from the connection's extra, which may hold libpq's keys"
        )


class PostgresConnectionIncomplete(InvalidSettings):
    """A connection names no host, or no database."""

    conn_id: str
    host: str | None
    schema: str | None

    def __str__(self) -> str:
        return (
            f"connection {self.conn_id!r}: host and schema (the database) are needed,"
            f" got host={self.host!r} schema={self.schema!r}"
        )


NO_ANSWER = (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.InternalError)
"""What psycopg2 raises where the server is gone, gave up, or is a standby."""

BY_CONSTRAINT: dict[str, Callable[..., TidemarkError]] = {
    "moved_rows_equal_contributed": StagedRowsGone,
    "moved_dead_letters_equal_contributed": StagedRowsGone,
    "chosen_letters_are_replayed_or_kept": ChosenDeadLettersGone,
    "partition_stands_at_span_start": PartitionStandsElsewhere,
    "epoch_is_the_expected_one": EpochIsTaken,
    "unpublished_batches_are_in_flight": NoRoomInFlight,
    "batches_follow_one_another": BatchIsFollowed,
    "published_batch_is_claimed": ClaimsAreNotThePlan,
    "spans_do_not_overlap": SpansOverlap,
    "a_record_is_a_dead_letter_once": DeadLetterIsThere,
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
    """Translate psycopg2's error into PostgresUnreachable, with its first line and SQLSTATE."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return PostgresUnreachable(cause=lines[0], sqlstate=error.pgcode)
