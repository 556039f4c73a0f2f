"""What a DAG carries of its pipeline: the page finds regions there, where no file can be read."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import ValidationError

from tidemark.settings.errors import DagOfOtherVersion
from tidemark.settings.pipeline import Pipeline

KEY = "tidemark"

ERROR = "tidemark_error"
"""The XCom in which a failed task keeps its error's code, which the page tells."""


class Role(StrEnum):
    """What a DAG does with its region."""

    run = "run"
    reset = "reset"
    replay = "replay"


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
        kept["decode"] = {"format": "raw"}  # fields may need files that are not there
        found = {"role": self.role, "file": self.file, "format": self.format, "pipeline": kept}
        return json.dumps({KEY: found}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """What a task carries; None where that is something else.

        Raises:
            InvalidSettings: another version of Tidemark wrote it.
        """
        try:
            found = json.loads(text)[KEY]
        except (ValueError, KeyError, TypeError):
            return None
        try:
            pipeline = Pipeline.model_validate(found["pipeline"])
            return cls(Role(found["role"]), found["file"], found["format"], pipeline)
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise DagOfOtherVersion from error
