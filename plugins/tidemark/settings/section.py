"""A section of the pipeline file: what all sections have in common."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from tidemark.errors import InvalidSettings
from tidemark.model.bounds import MOST

T = TypeVar("T")
CONNECTION = r"^[A-Za-z0-9_.-]{1,100}$"

Positive = Annotated[int, Field(gt=0, le=MOST)]


class Strict(BaseModel):
    """A section of the file: unknown keys are refused, nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def valid(check: Callable[[Any], T]) -> Callable[[Any], T]:
    """The same check, as pydantic wants its faults."""

    def checked(value: Any) -> T:
        try:
            return check(value)
        except InvalidSettings as error:
            raise ValueError(str(error)) from error

    return checked
