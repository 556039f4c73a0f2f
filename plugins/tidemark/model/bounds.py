"""Bounds: how much one batch and one run may take."""

from dataclasses import dataclass, fields

from tidemark.model.errors import BoundOutOfRange, TooManyInFlight

MOST = 2**63 - 1
"""The largest number that the ledger holds: of a limit, and of a seq."""

MOST_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a batch (records, bytes) and of a run (batches, seconds); None is no limit.

    Raises:
        InvalidSettings: a limit is not positive, or larger than the ledger holds; or more batches
            than two are in flight.
    """

    max_records: int
    max_batches: int | None = None
    max_seconds: int | None = None
    max_bytes: int | None = None
    in_flight: int = 1
    """Batches that are planned and not published, at most."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MOST:
                raise BoundOutOfRange(name=name, value=value, limit=MOST)
        if self.in_flight > MOST_IN_FLIGHT:
            raise TooManyInFlight(in_flight=self.in_flight)


SLOW_START = 4
"""Batches after a reset that are smaller than the bound: 1/16, 1/8, 1/4 and 1/2 of it."""


def slow_start(max_records: int, since_reset: int | None) -> int:
    """Offsets that the next batch may have, `since_reset` checkpoints after a reset.

    What made a run fail may lie in its next records: small batches fail sooner, cost less and
    show where it lies. None means that the region was never reset.
    """
    if since_reset is None or since_reset >= SLOW_START:
        return max_records
    return max(1, max_records >> (SLOW_START - since_reset))
