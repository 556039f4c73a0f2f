"""What a DAG carries of its pipeline: the page finds regions there, where no file can be read."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import ValidationError

from tidemark.settings.errors import CarriedTooLarge, DagOfOtherVersion
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import CARRIED

KEY = "tidemark"
MARK = f'{{"{KEY}": '
"""So begins what a task carries of its pipeline: what does not is not parsed."""

MOST_CHARS = 256 * 1024
"""Of what a task carries."""

_RAW = {"format": "raw"}

ERROR = "tidemark_error"
"""The XCom in which a failed task keeps its error's code, which the page tells."""


class Role(StrEnum):
    """What a DAG does with its region."""

    run = "run"
    reset = "reset"
    replay = "replay"


def ledger_run_id(dag_id: str, run_id: str, task_id: str = "") -> str:
    """By which the ledger knows a DAG run: `flights/manual__2026-01-31T12:00:00+00:00`.

    The id of a task group of ours stands behind it: two groups of one region are two runs, of
    which none closes or resets the other's.
    """
    group = task_id.rpartition(".")[0]
    return "/".join(filter(None, (dag_id, run_id, group)))


@dataclass(frozen=True, slots=True)
class Described:
    """A pipeline as a DAG carries it: all of its file but the fields that records have."""

    role: Role
    file: str
    format: str
    """How records are decoded."""
    pipeline: Pipeline
    """Its decode is raw: the page reads no record."""

    @classmethod
    def of(cls, pipeline: Pipeline, role: Role) -> Self:
        """What the DAG of this role carries."""
        return cls(role, pipeline.path.name, str(pipeline.decode.format), pipeline)

    def to_json(self) -> str:
        """For a field of the task that Airflow serializes; it holds ids of connections alone."""
        kept = self.pipeline.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        kept["decode"] = _RAW  # fields may need files that are not there
        found = {"role": self.role, "file": self.file, "format": self.format, "pipeline": kept}
        return json.dumps({KEY: found}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """What a task carries; None where that is something else.

        It is data, whoever wrote the DAG: no file is opened, no pattern compiled, and what would
        need a file is refused.

        Raises:
            InvalidSettings: another version of Tidemark wrote it, another program, or too much.
        """
        if not text.startswith(MARK):
            return None
        if len(text) > MOST_CHARS:
            raise CarriedTooLarge(size=len(text), limit=MOST_CHARS)
        try:
            return cls._of_plain(**json.loads(text)[KEY])
        except (ValidationError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DagOfOtherVersion from error

    @classmethod
    def _of_plain(cls, role: str, file: str, format: str, pipeline: dict[str, object]) -> Self:
        if pipeline["decode"] != _RAW:
            raise ValueError("a DAG carries no fields")
        read = Pipeline.model_validate(pipeline, context={CARRIED: True})
        return cls(Role(role), str(file), str(format), read)
