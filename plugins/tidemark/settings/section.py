"""A section of the pipeline file: what all sections have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tidemark.model.plan import MOST

CONNECTION = r"^[A-Za-z0-9_.-]{1,100}$"

CARRIED = "carried"
"""In the context of validation: a DAG carries it. What its author wrote is then data to whoever
reads it: no file is opened, no pattern compiled."""

Positive = Annotated[int, Field(gt=0, le=MOST)]


class Strict(BaseModel):
    """A section of the file: unknown keys are refused, nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
