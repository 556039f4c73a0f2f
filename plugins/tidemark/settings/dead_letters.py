"""The section `dead_letters` of a pipeline file: how many, what is kept, and where they go."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidemark.model.dead_letters import Limits
from tidemark.settings.output import OUTPUT, own
from tidemark.settings.section import Strict


class DeadLetterSettings(Strict):
    """How many records of a batch may become dead letters, and what is kept of one."""

    max_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of a batch's records; 1: no limit. A batch of up to 100 is judged with earlier ones."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """Number in one batch, whatever its size."""
    max_bytes: Annotated[int, Field(ge=0, le=1 << 30)] | Literal["whole"] = 64 << 10
    """Bytes kept of one: of key, headers and value together; of the rows that a target refused as
    JSON. What is longer is cut, and keeps its size and its SHA-256. whole: nothing is cut."""
    retain_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which the close of a run purges them, as `--purge --older-than` does. None: they
    stay."""
    topic: Annotated[str, Field(pattern=OUTPUT), AfterValidator(own)] | None = None
    """Topic of the same Kafka cluster that they are sent to once they are published; not one that
    the pipeline reads, nor that of the output. None: nowhere."""

    @property
    def kept_bytes(self) -> int | None:
        """The same; None keeps them whole."""
        return None if self.max_bytes == "whole" else self.max_bytes

    def limits(self) -> Limits:
        """The same limits as the core knows them."""
        return Limits(self.max_ratio, self.max_count)
