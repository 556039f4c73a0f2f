"""The section `dead_letters` of a pipeline file: how many there may be, and where they are sent."""

from typing import Annotated

from pydantic import AfterValidator, Field

from tidemark.model.dead_letters import Limits
from tidemark.settings.output import OUTPUT, own
from tidemark.settings.section import Strict


class DeadLetterSettings(Strict):
    """How many records of a batch may become dead letters; more end the run."""

    max_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of a batch's records; 1: no limit. A batch of up to 100 is judged with earlier ones."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """Number in one batch, whatever its size."""
    topic: Annotated[str, Field(pattern=OUTPUT), AfterValidator(own)] | None = None
    """Topic of the same Kafka cluster that they are sent to once they are published; not one that
    the pipeline reads, nor that of the output. None: nowhere."""

    def limits(self) -> Limits:
        """The same limits as the core knows them."""
        return Limits(self.max_ratio, self.max_count)
