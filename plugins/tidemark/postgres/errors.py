"""What a refusing Postgres means, judged by SQLSTATE and constraint name, never by text."""

import psycopg2
from psycopg2 import errorcodes, errors

from tidemark.errors import (
    Fenced,
    LedgerInconsistent,
    Refused,
    StagingLost,
    TidemarkError,
    Unreachable,
)

NO_ANSWER = (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.InternalError)
"""What psycopg2 raises where the server is gone, gave up, or is a standby."""

LOST = (
    "{}: staged rows are gone or changed, as after a crash of Postgres. Nothing was published: the"
    " records must be drained again"
)
EDITED = (
    "; the ledger was edited by hand, or only a part of it was restored. Nothing was written."
    " `tidemark verify` names the place; restore ledger and target from the same backup"
)
UNEQUAL = (
    "{}: a rewind would remove more or fewer rows than the ledger published. Nothing was removed;"
    " `tidemark verify` names the rows"
)
BY_CONSTRAINT: dict[str, tuple[type[TidemarkError], str]] = {
    "moved_rows_equal_contributed": (StagingLost, LOST),
    "moved_dead_letters_equal_contributed": (StagingLost, LOST),
    "chosen_letters_are_replayed_or_kept": (
        StagingLost,
        "{}: the dead letters that the replay has chosen are no longer all there, as after a purge."
        " Nothing was published; replay again",
    ),
    "partition_stands_at_span_start": (
        Fenced,
        "{}: a partition's next offset is not the start of its span; someone else moved it",
    ),
    "epoch_is_the_expected_one": (Fenced, "{}: another open or reset took this epoch"),
    "unpublished_batches_are_in_flight": (
        Fenced,
        "{}: the region has as many unpublished batches as its run allows",
    ),
    "batches_follow_one_another": (Fenced, "{}: another batch follows the same one"),
    "published_batch_is_claimed": (
        LedgerInconsistent,
        "{}: the spans that were claimed are not those of the plan" + EDITED,
    ),
    "spans_do_not_overlap": (
        LedgerInconsistent,
        "{}: a planned span overlaps one that was read before" + EDITED,
    ),
    "a_record_is_a_dead_letter_once": (
        LedgerInconsistent,
        "{}: a record is a dead letter already" + EDITED,
    ),
    "removed_rows_equal_published": (Refused, UNEQUAL),
    "removed_dead_letters_equal_published": (Refused, UNEQUAL),
    "target_belongs_to_one_region": (
        Refused,
        "{}: the target belongs to another region; name another target.table",
    ),
    "group_belongs_to_one_region": (
        Refused,
        "{}: the consumer group belongs to another region; set kafka.group to one of its own",
    ),
}
STANDBY = (
    "the connection leads to a standby, or the database is read-only. Point it at the primary, or"
    " name all servers in its host and set target_session_attrs to read-write in its extra"
)
GAVE_UP = {
    errorcodes.QUERY_CANCELED: "it took longer than statement_timeout, or somebody cancelled it;"
    " nothing of it was kept. Postgres' log names the slow statement; a large rewind needs an"
    " index on batch_seq (docs/operating.md)",
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


def refusal(error: psycopg2.Error) -> TidemarkError:
    """The error in our words. Its DETAIL may hold data of a row and is left out."""
    if isinstance(error, errors.InsufficientPrivilege):
        return Refused(
            f"Postgres: {_first_line(error)}; `tidemark check PIPELINE` names what to grant"
            " (docs/operating.md)"
        )
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn)):
        return Refused(f"Postgres: {_first_line(error)}; run `tidemark migrate PIPELINE` first")
    constraint = error.diag.constraint_name or ""
    if constraint in BY_CONSTRAINT:
        kind, text = BY_CONSTRAINT[constraint]
        return kind(text.format(constraint))
    if isinstance(error, psycopg2.IntegrityError):
        return LedgerInconsistent(f"Postgres: {_first_line(error)}{EDITED}")
    return LedgerInconsistent(
        f"Postgres: {_first_line(error)}; the tables are not as this version expects;"
        " `tidemark check PIPELINE` tells more"
    )


def staging_discarded() -> StagingLost:
    """What a missing staging table means to the task that writes to it."""
    return StagingLost(
        "the batch's staging tables are gone: a newer epoch has discarded the batch; the next"
        " run plans it anew"
    )


HINTS = {
    "password authentication failed": "correct login and password of the connection",
    "no password supplied": "give the connection a password",
    'database "': "correct the connection's schema (the database's name), or create the database",
    'role "': "correct the connection's login, or create the role",
    "no pg_hba.conf entry": "allow this host, user and database in the server's pg_hba.conf",
    "Connection refused": "nothing listens there: start the server, or correct host and port",
    "could not translate host name": "no such host: correct the connection's host",
    "timeout expired": "there was no answer: check host, port and firewall",
}
"""What to do, by a fragment of the client's message. For display alone: psycopg2 gives no SQLSTATE
for a refused login, so nothing may be decided by it, and a retry is not ruled out."""


def unreachable(error: psycopg2.Error) -> Unreachable:
    """The same fact in our words; psycopg2's first line names host and port, never a password."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    remedy = GAVE_UP.get(error.pgcode or "") or _hint(lines[0])
    return Unreachable(f"Postgres: {lines[0]}; {remedy}")


def _hint(line: str) -> str:
    found = (hint for fragment, hint in HINTS.items() if fragment in line)
    return next(found, "check the target connection and that the server is up")


def _first_line(error: psycopg2.Error) -> str:
    return error.diag.message_primary or type(error).__name__
