"""The section `target` of a pipeline file: where rows go."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from tidemark.model.table_name import spelled
from tidemark.model.upsert import Upsert
from tidemark.settings.sections import CONNECTION, Strict


class Mode(StrEnum):
    """How rows enter the target."""

    append = "append"
    upsert = "upsert"


class OnRefused(StrEnum):
    """What to do with a row that the target refuses."""

    stop = "stop"
    dead_letter = "dead_letter"


class OnNewColumn(StrEnum):
    """What to do with a column that the rows have and the table lacks."""

    refuse = "refuse"
    ignore = "ignore"
    add = "add"


ColumnName = Annotated[str, Field(min_length=1, max_length=63)]


TARGET = r"^[a-z][a-z0-9_]{0,19}$"
TargetName = Annotated[str, Field(pattern=TARGET)]

NAMES_CHARS = 46
"""Of a region and a target: with a seq of nine digits they name a staging table."""


class TargetSettings(Strict):
    """Where rows go."""

    connection: Annotated[str, Field(pattern=CONNECTION)]
    """Airflow connection of type postgres; the ledger lives in the same database."""
    table: Annotated[str, AfterValidator(spelled)]
    """Table with its schema: public.flights. Only this region may use it."""
    mode: Mode = Mode.append
    """append: every record adds its rows, of a compacted topic every one that is left when it is
    read; upsert: a key has its last row, or none."""
    key: tuple[ColumnName, ...] = ()
    """Columns that tell rows apart, for the mode upsert."""
    order_by: ColumnName | None = None
    """Column whose largest value is a key's last row; none: the record's offset decides, and a key
    stays in one partition."""
    deleted: ColumnName | None = None
    """Boolean column: true deletes the key. The target does not have it."""
    on_refused: OnRefused = OnRefused.stop
    """stop: a row that the table refuses ends the run; dead_letter: its record becomes one. All
    targets of a pipeline need the same value."""

    on_new_column: OnNewColumn = OnNewColumn.refuse
    """refuse: a column of the rows that the table lacks ends the run; ignore: it is not published,
    and a remark says so; add: the driver [adds it](evolution.md#new-columns), nullable, before it
    plans a batch."""

    @model_validator(mode="after")
    def _fit_the_mode(self) -> Self:
        of_upsert = {"key": self.key, "order_by": self.order_by, "deleted": self.deleted}
        given = [name for name, value in of_upsert.items() if value]
        if self.mode is Mode.append:
            if given:
                raise ValueError(f"{', '.join(given)}: only with mode: upsert")
            return self
        if not self.key:
            raise ValueError("mode upsert needs a key: the columns that tell rows apart")
        if len({*self.key, self.deleted}) <= len(self.key):
            raise ValueError("a column stands twice in key, or is both key and deleted")
        return self

    @property
    def upsert(self) -> Upsert | None:
        """How the mode upsert tells rows apart; None for other modes."""
        if self.mode is Mode.append:
            return None
        return Upsert(self.key, self.order_by, self.deleted)


def refuse_unfit_targets(targets: Mapping[str, TargetSettings], region: str) -> None:
    """Refuse targets of one region that can't be written by one transaction.

    Raises:
        ValueError: names what does not fit.
    """
    if len({one.connection for one in targets.values()}) > 1:
        raise ValueError(
            "targets have different connections: their rows become visible in one transaction, so"
            " they are in one database; name one connection"
        )
    tables = Counter(one.table for one in targets.values())
    if twice := [table for table, times in tables.items() if times > 1]:
        raise ValueError(f"two targets have the table {', '.join(twice)}: give each its own")
    if long := [name for name in targets if len(region) + len(name) > NAMES_CHARS]:
        raise ValueError(
            f"the names of the region and of target {', '.join(long)} have more than"
            f" {NAMES_CHARS} letters together, which a staging table's name can't hold"
        )
    if len({one.on_refused for one in targets.values()}) > 1:
        raise ValueError(
            "on_refused differs from target to target: a record is rows in all of them or a dead"
            " letter; give each the same"
        )
