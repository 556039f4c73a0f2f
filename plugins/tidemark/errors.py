"""Errors as data: a code says what a retry can do, a case says what happened, in typed fields.

The classes of this file are the codes. Each has its facts in its class line: the table in
docs/errors.md, the page's remedies and the exit codes of `--help` are made from them. What a
room can meet are its cases: subclasses in the room's errors.py. Their fields are annotations. Their
text stands in the class line, fact first, then the remedy. A part that has branches is a property;
a text that has several is `__str__`.

    class GroupsAreTaken(Refused, text="region {region}: {groups:list} are taken. Name others"):
        region: str
        groups: tuple[str, ...]

    raise GroupsAreTaken(region="flights", groups=("g", "h"))

A text is a format string of the fields, of what they hold, and of the class's properties, as
`{region!r}`, `{topics.named}` or `{seconds:.0f}`. `{groups:list}` joins what a field holds (see
`JOINED`), and `{table!q}` quotes it as a name of SQL.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from string import Formatter
from typing import Any, ClassVar, dataclass_transform, get_origin

from tidemark import DISTRIBUTION


def _in_capitals(name: str) -> str:
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


JOINED = {"list": ", ", "clauses": "; ", "lines": "\n", "and": " and ", "or": " or "}
"""The separator of a field's members, by the format that a text gives."""
NUMBERS = (",", "g", ".0f")
"""The other formats of a text."""


def quoted(name: str) -> str:
    """The name as a quoted identifier, for a statement that a person may run."""
    return '"' + name.replace('"', '""') + '"'


class _Text(Formatter):
    """Puts an error's fields into a text. What a value holds is data: its braces mean nothing."""

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        return getattr(kwargs["error"], str(key))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion != "q":
            return super().convert_field(value, conversion)
        return quoted(value) if isinstance(value, str) else [quoted(one) for one in value]

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in JOINED:
            return JOINED[format_spec].join(map(str, value))
        return format(value, format_spec)

    def check(self, text: str, kind: type["TidemarkError"]) -> None:
        """Return if nothing but the class's names and known formats stand in the text."""
        for _, name, form, conversion in self.parse(text):
            if name is not None and not kind.has(name.partition(".")[0]):
                raise TypeError(f"{name!r} is no field or property: {text}")
            if form and form not in JOINED and form not in NUMBERS:
                raise TypeError(f"{form!r} is no format: {text}")
            if conversion not in (None, "q", "r"):
                raise TypeError(f"{conversion!r} is no conversion: {text}")


_TEXT = _Text()


@dataclass_transform(kw_only_default=True, eq_default=False)
class TidemarkError(Exception):
    """Base of all errors with a text for the person on call."""

    code: ClassVar[str] = "TIDEMARK_ERROR"
    """As documentation, logs and `-o json` show it: INCOMPLETE_READ."""
    exit_code: ClassVar[int] = 1
    retry_may_help: ClassVar[bool] = True
    hint: ClassVar[str] = ""
    """What a person does about it, whatever the case: a sentence or two."""
    see: ClassVar[str] = ""
    """The heading in docs/ that tells more, as a link."""
    _text: ClassVar[str] = ""
    _fields: ClassVar[tuple[str, ...]] = ()
    _told: Mapping[str, Any] | None = None
    """The error as another process reported it."""

    def __init_subclass__(
        cls,
        *,
        text: str = "",
        hint: str = "",
        exit_code: int = 1,
        retry: bool | None = None,
        see: str = "",
    ) -> None:
        """Make a code of the class if it has a hint, a case of its code otherwise.

        Raises:
            TypeError: the text names no field or property, or has an unknown format.
            ValueError: the text is no format string.
        """
        super().__init_subclass__()
        if hint:
            cls.code = _in_capitals(cls.__name__)
            cls.exit_code, cls.hint, cls.see = exit_code, hint, see
            cls.retry_may_help = exit_code == 1 if retry is None else retry
        annotations: Any = cls.__annotations__  # in its own dict only before Python 3.14
        own = (name for name, kind in annotations.items() if get_origin(kind) is not ClassVar)
        cls._fields = tuple(dict.fromkeys((*cls._fields, *own)))
        if text:
            _TEXT.check(text, cls)
            cls._text = text

    def __init__(self, **values: Any) -> None:
        """Take a value for each field that has no default; by hand, for processes start quickly.

        Raises:
            TypeError: a field is missing, or unknown.
        """
        super().__init__()
        missing = [
            one for one in self._fields if one not in values and not hasattr(type(self), one)
        ]
        unknown = [one for one in values if one not in self._fields]
        if missing or unknown:
            raise TypeError(f"{type(self).__name__}: missing {missing}, unknown {unknown}")
        vars(self).update(values)

    def __str__(self) -> str:
        if self.args:
            return str(self.args[0])
        return _TEXT.format(self._text, error=self) if self._text else self.hint

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, dict(vars(self)))

    @classmethod
    def has(cls, name: str) -> bool:
        """Whether its text may name this: a field, or a property of the class."""
        return name in cls._fields or isinstance(getattr(cls, name, None), property)

    @property
    def case(self) -> str:
        """The name of its class: GroupIsTaken. A code alone has its own name."""
        return str(self._told["case"]) if self._told else type(self).__name__

    def fields(self) -> dict[str, object]:
        """The case's fields by name, in plain values as JSON takes them."""
        own = {name: _plain(getattr(self, name)) for name in self._fields}
        return {**(self._told["fields"] if self._told else {}), **own}


class Unreachable(
    TidemarkError,
    hint="Check that the server which the text names answers, and the login. Nothing half-done is"
    " visible.",
):
    """Kafka or Postgres does not answer, refuses the login, or gave up what was asked.

    Such as: a wrong password, an unknown database, a lock that somebody held, a time-out, a
    deadlock, a full disk; or a read made no progress for `no_progress_seconds`. An open run waits
    for Kafka in a short outage.
    """


class StagingLost(
    TidemarkError, hint="Nothing: a retry, or the next run, drains the records again."
):
    """Rows that were staged are gone: their number differs from what was contributed.

    Postgres crashed (staging tables are not logged), or a newer epoch discarded the batch.
    """


class NoProgress(
    TidemarkError,
    hint="The text names the spans and who holds them, and so does `tidemark group`. Stop a foreign"
    " consumer, or give the region a `kafka.group` of its own; look at the job of a member that is"
    " stuck.",
):
    """Nothing was planned, claimed or staged for `no_progress_seconds`.

    If a consumer that is no member of the region holds one of the partitions, 15 s are enough.
    """


class RunNotDone(
    TidemarkError,
    hint="The text names each reason; the log of the drain task says more. The next run goes on"
    " from the ledger: nothing is lost or doubled.",
):
    """The ledger does not say that the run is done.

    A target offset is not reached, a batch is unpublished, or Kafka's group offsets differ.
    """


class OutcomeUnknown(TidemarkError, hint="Nothing: a retry finds what was committed."):
    """COMMIT was sent and its answer never came; only the ledger knows.

    It is the COMMIT of a plan, of staging or of a close. After a publish, an open or a reset,
    Tidemark looks up in the ledger what happened.
    """


class CommitRefused(
    TidemarkError, hint="Nothing of it was kept. If it happens again, read Postgres' log."
):
    """Postgres answered COMMIT with ROLLBACK: the transaction was rolled back."""


class MirrorFailed(
    TidemarkError,
    hint="Find who else commits in this group, and stop it. The rows are safe; open, close and"
    " reset write the offsets again.",
):
    """Kafka's group offsets do not read back as the merged checkpoint."""


class JobFailed(
    TidemarkError,
    hint="If the text names no remedy, look at Spark's log and its master. If memory ran out, set a"
    " lower `batch.max_records`. Nothing of the batch is visible.",
):
    """The job of a batch failed: a task, or Spark itself.

    A worker died, memory ran out, a file or a service that the transform uses did not answer.
    """

    is_of_dead_worker: bool = False
    """A process that read or wrote ended without a word; what it read may have killed it."""
    spans: tuple[Any, ...] = ()
    """What the job had to read."""


class NotStarted(TidemarkError, hint="Read the log that the text names.", retry=False):
    """`tidemark local` could not fetch or start a part of the local stack."""


class InvalidSettings(
    TidemarkError,
    ValueError,
    exit_code=2,
    hint="Correct the file, the connection or the topic that the text names.",
):
    """The pipeline file, a connection or an argument is wrong, or a topic does not exist."""


class MissingExtra(
    InvalidSettings,
    text="{feature} needs packages that are missing or of another version ({cause}): install "
    + DISTRIBUTION
    + "[{extra}]",
):
    """Packages that only some installations need are not there."""

    feature: str
    """The feature that needs them: format avro."""
    extra: str
    """The extra to install Tidemark with."""
    cause: str
    """Python's own text, or the package."""


@contextmanager
def packages_of(extra: str, feature: str) -> Iterator[None]:
    """Inside the block, import the packages of an extra that a feature needs.

    Raises:
        MissingExtra: a package is missing.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtra(feature=feature, extra=extra, cause=str(error)) from error


class Fenced(
    TidemarkError,
    exit_code=10,
    hint="No action is needed if the newer run or the reset was intended. If not, `tidemark.runs`"
    " and `tidemark.resets` say who started it.",
):
    """A newer epoch holds the region: this process may write nothing more.

    Another run, a reset, a rewind or a cleared task took over.
    """


class TargetRefused(
    TidemarkError,
    exit_code=11,
    hint="Correct the rows in the transform, or change the table or its trigger. Until then every"
    " run stops at this batch, unless `on_refused` says otherwise.",
    see="dead-letters.md#rows-that-the-target-refuses",
):
    """A constraint, trigger or type of the target refuses a row, or a trigger drops it silently.

    In a rewind: a trigger, or a table that refers to the target, keeps a row; nothing was changed.
    Or the target's name now belongs to another table. The text names the constraint, trigger or
    table, and never quotes the row.
    """


class IncompleteRead(
    TidemarkError,
    exit_code=12,
    hint="Remove `limit()`, `first()`, `head()` and always-false filters from the transform;"
    " `batch.max_records` limits a batch. `tidemark check` finds them before a run does.",
):
    """The transform cuts its rows, or not all of them were read and taken by the job.

    It has `limit`, `offset` or `tail`; it returns rows that do not come from those it was given
    (`rdd`, `checkpoint`, `take`); or after the job some records were not read.
    """


class DataLost(
    TidemarkError,
    exit_code=13,
    hint="A person decides: the text names the ranges that Kafka no longer holds. To go on without"
    " them, start a run with Accept data loss. Tidemark never skips records by itself.",
    see="recovery.md#when-kafka-has-lost-records",
):
    """Kafka no longer holds a needed offset, or holds other data there.

    Retention took it, the topic was created again, the log ends before the ledger's offset, or the
    connection leads to another cluster.
    """


class SchemaMismatch(
    TidemarkError,
    exit_code=14,
    hint="The text lists every difference, and an `ALTER TABLE` if one mends it. Nothing was"
    " written.",
):
    """The rows' columns do not fit the target, have a type that Postgres lacks, or have changed."""


class Superseded(
    TidemarkError,
    exit_code=15,
    hint="Nothing: another open or reset came first. Airflow's reset task counts it as success."
    " Rewind again if you still want it.",
):
    """A reset names an epoch that has passed: there is nothing left for it to do.

    Or another open or reset overtook this one. A rewind that was overtaken removed nothing.
    """


class Refused(
    TidemarkError,
    exit_code=16,
    hint="Read the end of the message: it names the option or the change that allows it.",
    see="recovery.md#overrides",
):
    """An action is not allowed in this state.

    Such as: another run is at work; a new region's group already has commits; the settings differ
    from the checkpoint's; too many resets in a row; a rewind's records can't be read again, or it
    would remove more or fewer rows than were published; the target is another table, or hides rows;
    a right is missing; the ledger's schema is older or newer than this version; what was sent to
    the output topic is not known.
    """


class LedgerInconsistent(
    TidemarkError,
    exit_code=17,
    hint="Nothing of it was written. `tidemark verify` names gaps and overlaps. If the"
    " text names no other remedy, restore ledger and target from one backup.",
    see="administration.md#backups",
):
    """A constraint of the ledger was violated: it was edited by hand, or restored in part."""


class ClaimsLost(
    TidemarkError,
    exit_code=18,
    hint="Nothing: the reset that follows ends the epoch, and the next run drains the records"
    " again.",
):
    """Staged rows are gone while claims of the batch stand: only the next epoch drains again."""


class CorruptRecord(
    TidemarkError,
    exit_code=19,
    retry=True,
    hint="Restore the records, or leave out exactly the offsets that the text names by Accept"
    " corrupt records.",
    see="recovery.md#when-kafka-holds-a-corrupt-batch",
):
    """Kafka holds a record batch that can't be read.

    Its checksum is wrong, or its format or its offsets are impossible.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class TransformFailed(
    TidemarkError,
    exit_code=20,
    hint="Correct the transform: the text has the exception with file and line. If it came from a"
    " service that the transform calls, the next run is the retry.",
):
    """The transform can't be imported or raises: a retry would raise again.

    While it builds its plan, with the empty batch that tells its columns, or in a task, which Spark
    has tried again. Nothing of the batch is visible.
    """


class TooManyDeadLetters(
    TidemarkError,
    exit_code=21,
    hint="Look at the reasons: correct the producer, `decode.schema` or the topic, or raise the"
    " limit under `dead_letters` in the pipeline file.",
    see="dead-letters.md#too-many-dead-letters",
):
    """More records of a batch could not become rows than its run allows.

    The text has the numbers and the commonest reasons. Nothing of the batch is published.
    """


class OutputTooLarge(
    TidemarkError,
    exit_code=22,
    hint="Raise `output.max_seconds`, up to the brokers' `transaction.max.timeout.ms`. For batches"
    " to come, lower `batch.max_records`.",
):
    """The rows of a batch do not fit into a Kafka transaction of the output topic.

    They could not be sent within `output.max_seconds`. Nothing of the batch was sent; it is
    published.
    """


class NotComplete(
    TidemarkError,
    exit_code=23,
    retry=True,
    hint="Start a run, or wait for it: `tidemark complete REGION --wait`. `tidemark status REGION`"
    " tells what is in its way.",
    see="complete.md",
):
    """The ledger does not say that the region is complete at that time.

    No run has asked Kafka since, or the newest that did has not read all that it saw.
    """


def by_code() -> dict[str, type[TidemarkError]]:
    """Every code with its class, in the order of this file: {"FENCED": Fenced}."""
    return {kind.code: kind for kind in TidemarkError.__subclasses__() if "hint" in vars(kind)}


def error_as_dict(error: TidemarkError) -> dict[str, object]:
    """The error for another process or a program: code, case, text and fields, all plain."""
    return {"code": error.code, "case": error.case, "text": str(error), "fields": error.fields()}


def error_from_dict(found: Mapping[str, Any]) -> TidemarkError:
    """The error of which another process told: its code, with the case, text and fields it had."""
    kind = by_code()[found["code"]]
    error = kind(**{name: one for name, one in found["fields"].items() if name in kind._fields})
    error.args, error._told = (found["text"],), found
    return error


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Collection) and not (
        isinstance(value, str | bytes) or hasattr(value, "_fields")
    ):
        return [_plain(one) for one in value]
    return str(value)


def _rebuilt(
    kind: type[TidemarkError], args: tuple[Any, ...], state: dict[str, Any]
) -> TidemarkError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error
