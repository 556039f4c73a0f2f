"""The section `target` of a pipeline file: where rows go."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from tidemark.model.table_name import spelled
from tidemark.settings.section import CONNECTION, Strict, valid


class Mode(StrEnum):
    """How rows enter the target."""

    append = "append"


class OnRefused(StrEnum):
    """What a row that the target refuses does."""

    stop = "stop"
    dead_letter = "dead_letter"


class TargetSettings(Strict):
    """Where rows go."""

    connection: Annotated[str, Field(pattern=CONNECTION)]
    """Airflow connection of type postgres; the ledger lives in the same database."""
    table: Annotated[str, AfterValidator(valid(spelled))]
    """Table with its schema: public.flights. Only this region may use it."""
    mode: Mode = Mode.append
    """append: every record adds its rows."""
    on_refused: OnRefused = OnRefused.stop
    """stop: a row that the table refuses ends the run; dead_letter: its record becomes one."""
