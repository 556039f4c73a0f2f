"""Errors by remedy: each class says what a retry can do and which exit code the driver ends with.

TidemarkError                     1   a retry may help
├─ Unreachable                    1   Kafka or Postgres does not answer, or could not finish
├─ StagingLost                    1   staged rows are gone: a retry drains again
├─ NoProgress                     1   nobody drains some partitions
├─ RunNotDone                     1   close: the ledger does not say that the run is done
├─ OutcomeUnknown                 1   COMMIT was sent and no answer came: ask the ledger
├─ CommitRefused                  1   COMMIT was answered with another word: nothing stands
├─ MirrorFailed                   1   Kafka's group offsets could not be set equal to the ledger
├─ JobFailed                      1   the Spark job (a task, Spark itself) failed
├─ NotStarted                     1   a part of the local stack did not start
├─ InvalidSettings                2   configuration: file, line, key
├─ Fenced                        10   a newer epoch holds the region
├─ TargetRefused                 11   a constraint of the target refuses a row
├─ IncompleteRead                12   the transform let Spark skip or cut the read
├─ DataLost                      13   Kafka no longer holds a needed offset; a person must decide
├─ SchemaMismatch                14   the rows do not fit the target table
├─ Superseded                    15   a reset names an epoch that has passed
├─ Refused                       16   not allowed in this state; the text says what would allow it
├─ LedgerInconsistent            17   the ledger holds what Tidemark never writes
├─ ClaimsLost                    18   staged rows of a claim that stands are gone: the epoch ends
├─ CorruptRecord                 19   Kafka holds a record batch that can't be read; may pass
├─ TransformFailed               20   the transform raises, and would raise again
├─ TooManyDeadLetters            21   more of a batch's records are dead letters than allowed
└─ OutputTooLarge                22   a batch's rows can't be sent in one Kafka transaction
"""

from typing import Any, ClassVar


class TidemarkError(Exception):
    """Base of all errors with a text for the person on call: fact first, then remedy."""

    exit_code: ClassVar[int] = 1
    retry_may_help: ClassVar[bool] = False
    """Of errors whose exit code is not 1, for which it is always so."""

    @property
    def code(self) -> str:
        """The error's name as documentation, logs and `-o json` show it: INCOMPLETE_READ."""
        name = type(self).__name__
        return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


class Unreachable(TidemarkError):
    """Kafka or Postgres does not answer, refuses the login, or gave up what was asked."""


class StagingLost(TidemarkError):
    """Staged rows are gone: the counts of the publish differ from the contributed ones."""


class NoProgress(TidemarkError):
    """Nothing was planned, or no span was claimed, for no_progress_seconds."""


class RunNotDone(TidemarkError):
    """The ledger does not say that the run is done."""


class OutcomeUnknown(TidemarkError):
    """COMMIT was sent and its answer never came; only the ledger knows."""


class CommitRefused(TidemarkError):
    """Postgres answered COMMIT with ROLLBACK: an earlier statement had failed unseen."""


class MirrorFailed(TidemarkError):
    """Kafka's group offsets do not read back as the merged checkpoint."""


class JobFailed(TidemarkError):
    """The job of a batch failed: a task, or Spark itself."""

    is_of_dead_worker: bool = False
    """A process that read or wrote ended without a word; what it read may have killed it."""
    spans: tuple[Any, ...] = ()
    """What the job had to read."""


class NotStarted(TidemarkError):
    """A part of the local stack cannot be fetched or did not start."""


class InvalidSettings(TidemarkError, ValueError):
    """A configuration value is wrong; the text names file, line and key."""

    exit_code = 2


class Fenced(TidemarkError):
    """A newer epoch holds the region: this process may write nothing more."""

    exit_code = 10


class TargetRefused(TidemarkError):
    """A constraint of the target refuses a row of the batch."""

    exit_code = 11


class IncompleteRead(TidemarkError):
    """The transform cuts its rows, or not all of them were read and taken by the job."""

    exit_code = 12


class DataLost(TidemarkError):
    """Kafka no longer holds a needed offset, or holds other data there."""

    exit_code = 13


class SchemaMismatch(TidemarkError):
    """The rows' columns do not fit the target table."""

    exit_code = 14


class Superseded(TidemarkError):
    """A reset names an epoch that has passed: there is nothing left for it to do."""

    exit_code = 15


class Refused(TidemarkError):
    """An action is not allowed in this state; the text says what would allow it."""

    exit_code = 16


class LedgerInconsistent(TidemarkError):
    """A constraint of the ledger refuses what is always right where only Tidemark writes it."""

    exit_code = 17


class ClaimsLost(TidemarkError):
    """Staged rows are gone while claims of the batch stand: only the next epoch drains again."""

    exit_code = 18


class CorruptRecord(TidemarkError):
    """Kafka gives a record batch that can't be read; a person must decide if it stays so."""

    exit_code = 19
    retry_may_help = True

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def where(self) -> tuple[Any, ...]:
        """Topic, partition and offset, if they were given after the text."""
        return self.args[1:]


class TransformFailed(TidemarkError):
    """The transform can't be imported or raises: a retry would raise again."""

    exit_code = 20


class TooManyDeadLetters(TidemarkError):
    """More records of a batch could not become rows than its run allows."""

    exit_code = 21


class OutputTooLarge(TidemarkError):
    """The rows of one batch do not fit into a Kafka transaction of the output topic."""

    exit_code = 22


def by_code() -> dict[str, type[TidemarkError]]:
    """Every error of this tree by its code: {"FENCED": Fenced}."""
    kinds = TidemarkError.__subclasses__()
    return {kind().code: kind for kind in kinds if kind.__module__ == __name__}
