"""Errors of Postgres: it refuses, gives up or does not answer.

SQLSTATE and constraint name decide, never a text.
"""

from collections.abc import Callable
from functools import partial

import psycopg2
from psycopg2 import errorcodes

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
from tidemark.postgres.fate import Fate, fate

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
    errorcodes.OBJECT_NOT_IN_PREREQUISITE_STATE: "nothing of it was kept. Where a publication sends"
    " updates or deletions of a table without a replica identity, ALTER TABLE … REPLICA IDENTITY"
    " FULL lets them be done",
    errorcodes.DISK_FULL: "nothing of it was kept. Free disk space on the server, then try again",
    errorcodes.CONFIGURATION_LIMIT_EXCEEDED: "a limit of the server's settings, such as"
    " temp_file_limit; nothing of it was kept. Raise it, then try again",
    errorcodes.TOO_MANY_CONNECTIONS: "raise max_connections, or the role's or the database's"
    " CONNECTION LIMIT, or end sessions; then try again",
}
"""Remedies by SQLSTATE, where a server answers and could not finish. A retry may help."""

HINTS = {
    "password authentication failed": "correct login and password of the connection, or what its"
    " password_cb makes",
    "no password supplied": "give the connection a password",
    "PAM authentication failed": "Amazon RDS refuses the token: GRANT rds_iam TO the login, and"
    " allow the machine's role rds-db:connect as it",
    "permission denied for database": "GRANT CONNECT ON DATABASE to the connection's login",
    'database "': "correct the connection's schema (the database's name), or create the database",
    'role "': "correct the connection's login, or create the role",
    "no pg_hba.conf entry": "allow this host, user and database in the server's pg_hba.conf",
    "Connection refused": "nothing listens there: start the server, or correct host and port",
    "could not translate host name": "no such host: correct the connection's host",
    "timeout expired": "there was no answer: check host, port and firewall",
}
"""Remedies by a fragment of the client's message. For display alone: psycopg2 gives no SQLSTATE
for a refused login, so nothing may be decided by it, and a retry is not ruled out."""


class PostgresUnreachable(Unreachable, text="Postgres: {cause}; {_remedy}"):
    """Postgres does not answer, refuses the login, or gave up what was asked."""

    cause: str
    """The first line of the client's message: it names host and port, never a password."""
    sqlstate: str | None

    @property
    def _remedy(self) -> str:
        if gave_up := GAVE_UP.get(self.sqlstate or ""):
            return gave_up
        found = (hint for fragment, hint in HINTS.items() if fragment in self.cause)
        return next(found, "check the target connection and that the server is up")


class CloudConnectionRefused(
    InvalidSettings,
    text="connection {connection!r}: {key} names a connection of Airflow's, which Spark's tasks and"
    " long runs can't ask for a token. Remove it: with iam each process logs in as its machine's"
    " identity. For another identity name a callback in password_cb"
    " (docs/configuration.md#token-callbacks)",
):
    connection: str
    key: str


class IamHostUnknown(
    InvalidSettings,
    text="connection {connection!r}: iam is for hosts of Amazon RDS and Azure, and {host} is"
    " neither: give the server's own name, or name a callback in password_cb"
    " (docs/configuration.md#token-callbacks)",
):
    connection: str
    host: str


class PostgresRightMissing(
    Refused,
    text="Postgres: {cause}; `tidemark check PIPELINE` names what to grant"
    " (docs/administration.md)",
):
    cause: str


class SettingNotAsNeeded(
    Refused,
    text="Postgres: {setting} is {found} in our sessions: constraints, triggers or rows are passed"
    " over. Let a superuser set it to {needed} for the login: ALTER ROLE … or ALTER DATABASE …"
    " RESET {setting}",
):
    setting: str
    found: str
    needed: str


class LedgerNotMigrated(Refused, text="Postgres: {cause}; run `tidemark migrate PIPELINE` first"):
    cause: str


class LedgerConstraintViolated(LedgerInconsistent, text="Postgres: {cause}" + EDITED):
    """A constraint refuses what no constraint of the ledger refuses by design."""

    cause: str


class LedgerTablesDiffer(
    LedgerInconsistent,
    text="Postgres: {cause}; the tables are not as this version expects; `tidemark check PIPELINE`"
    " tells more",
):
    cause: str


class ValueNotTaken(
    Refused,
    text="Postgres can't take a value (SQLSTATE {sqlstate} {condition}); nothing of it was kept,"
    " and a retry is refused like this one. A character that the database's encoding lacks (SHOW"
    " server_encoding) needs a database in UTF8",
):
    sqlstate: str
    condition: str
    """The SQLSTATE's name. The server's text may quote the value."""


class LimitOfPostgres(
    Refused,
    text="Postgres: {cause} (SQLSTATE {sqlstate}); nothing of it was kept. This is a limit of"
    " Postgres itself: a retry is refused like this one",
):
    cause: str
    sqlstate: str


class StagedRowsGone(
    StagingLost,
    text="{constraint}: staged rows are gone or changed, as after a crash of Postgres. Nothing was"
    " published: the records must be drained again",
):
    constraint: str


class ChosenDeadLettersGone(
    StagingLost,
    text="{constraint}: the dead letters that the replay has chosen are no longer all there, as"
    " after a purge. Nothing was published; replay again",
):
    constraint: str


class StagingDiscarded(
    StagingLost,
    text="the batch's staging tables are gone: a newer epoch has discarded the batch, or Postgres"
    " has lost them, as in a fail-over; a retry, or the next run, makes them anew",
):
    """A batch's staging table is missing."""


class PartitionStandsElsewhere(
    Fenced,
    text="{constraint}: a partition's next offset is not the start of its span; someone else moved"
    " it",
):
    constraint: str


class MemberForgotten(
    Unreachable,
    text="{constraint}: Postgres no longer knows this member of the run: it has lost what was"
    " committed last, as in a fail-over. Nothing was published; a retry registers anew",
):
    constraint: str


class RegionForgotten(
    Refused,
    text="{constraint}: the ledger no longer knows the region: somebody dropped it, or Postgres"
    " lost its last commits, as in a fail-over. Nothing was written. `tidemark region list` shows"
    " the regions; the next run opens this one as a new region",
):
    constraint: str


class LedgerMovedOn(Fenced, text="{constraint}: {fact}"):
    constraint: str
    fact: str


class LedgerContradicted(LedgerInconsistent, text="{constraint}: {fact}" + EDITED):
    constraint: str
    fact: str


class RemovalUnequal(
    Refused,
    text="{constraint}: a rewind would remove more or fewer rows than the ledger published."
    " Nothing was removed; `tidemark verify` names the rows",
):
    constraint: str


class OwnedByAnotherRegion(
    Refused,
    text="{constraint}: the {owned} belongs to another region; set {setting} to one of its own",
):
    constraint: str
    owned: str
    setting: str


class CommitUnanswered(OutcomeUnknown, text="{transaction}: the connection was lost during COMMIT"):
    transaction: str


class CommitRolledBack(CommitRefused, text="{transaction}: Postgres answered COMMIT with {answer}"):
    transaction: str
    answer: str | None


BY_CONSTRAINT: dict[str, Callable[..., TidemarkError]] = {
    "moved_rows_equal_contributed": StagedRowsGone,
    "moved_dead_letters_equal_contributed": StagedRowsGone,
    "chosen_letters_are_replayed_or_kept": ChosenDeadLettersGone,
    "partition_stands_at_span_start": PartitionStandsElsewhere,
    "contributions_member_fkey": MemberForgotten,
    "members_region_fkey": RegionForgotten,
    "targets_region_fkey": RegionForgotten,
    "epoch_is_the_expected_one": partial(
        LedgerMovedOn, fact="another open or reset took this epoch"
    ),
    "unpublished_batches_are_in_flight": partial(
        LedgerMovedOn, fact="the region has as many unpublished batches as its run allows"
    ),
    "batches_follow_one_another": partial(
        LedgerMovedOn, fact="another batch already follows the batch before this one"
    ),
    "published_batch_is_claimed": partial(
        LedgerContradicted, fact="the spans that were claimed are not those of the plan"
    ),
    "spans_do_not_overlap": partial(
        LedgerContradicted, fact="a planned span overlaps one that was read before"
    ),
    "a_record_is_a_dead_letter_once": partial(
        LedgerContradicted, fact="a record is a dead letter already"
    ),
    "removed_rows_equal_published": RemovalUnequal,
    "removed_dead_letters_equal_published": RemovalUnequal,
    "target_belongs_to_one_region": partial(
        OwnedByAnotherRegion, owned="target", setting="target.table"
    ),
    "group_belongs_to_one_region": partial(
        OwnedByAnotherRegion, owned="consumer group", setting="kafka.group"
    ),
}

_NOT_THERE = (
    errorcodes.UNDEFINED_TABLE,
    errorcodes.UNDEFINED_FUNCTION,
    errorcodes.UNDEFINED_COLUMN,
)


def translated(error: psycopg2.Error) -> TidemarkError:
    """The error in our words; whether a retry may help is as `fate` says."""
    return unreachable(error) if fate(error) is Fate.server else refusal(error)


def refusal(error: psycopg2.Error) -> TidemarkError:
    """What no retry can help, in our words. Its DETAIL may hold data of a row and is left out."""
    cause = error.diag.message_primary or type(error).__name__
    code = error.pgcode or ""
    if fate(error) is Fate.right:
        return PostgresRightMissing(cause=cause)
    if code in _NOT_THERE:
        return LedgerNotMigrated(cause=cause)
    constraint = error.diag.constraint_name or ""
    if constraint in BY_CONSTRAINT:
        return BY_CONSTRAINT[constraint](constraint=constraint)
    match code[:2]:
        case "22":
            return ValueNotTaken(sqlstate=code, condition=condition(code))
        case "23":
            return LedgerConstraintViolated(cause=cause)
        case "54":
            return LimitOfPostgres(cause=cause, sqlstate=code)
        case _:
            return LedgerTablesDiffer(cause=cause)


def condition(sqlstate: str) -> str:
    """The SQLSTATE's name; a trigger may raise one that has none."""
    try:
        return errorcodes.lookup(sqlstate)
    except KeyError:
        return "of the target's own"


def unreachable(error: psycopg2.Error) -> PostgresUnreachable:
    """Translate psycopg2's error into PostgresUnreachable, with its first line and SQLSTATE."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return PostgresUnreachable(cause=lines[0], sqlstate=error.pgcode)
