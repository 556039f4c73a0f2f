"""The section `batch` of a pipeline file: bounds of a batch and of a run."""

from typing import Annotated

from pydantic import Field

from tidemark.model.plan import MOST_IN_FLIGHT, Bounds
from tidemark.settings.section import Positive, Strict


class BatchSettings(Strict):
    """Bounds of a batch and of a run."""

    max_records: Positive = 100_000
    """Offsets in one batch, shared fairly over the partitions."""
    max_bytes: Positive | None = None
    """Bytes of values in one batch, estimated from the sizes of earlier batches."""
    max_batches: Positive | None = None
    """Batches in one run."""
    max_seconds: Positive | None = None
    """Seconds after which a run plans no further batch; with a backlog it publishes one."""
    in_flight: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] = 2
    """Batches at work at once: with 2, the next one is drained while one is published."""

    def bounds(self) -> Bounds:
        """The same limits as the core knows them."""
        return Bounds(
            self.max_records, self.max_batches, self.max_seconds, self.max_bytes, self.in_flight
        )
