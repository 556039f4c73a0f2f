"""Bounds: how much one batch and one run may take."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a batch (records) and of a run (batches, seconds); None is no limit.

    Raises:
        ValueError: a limit is not positive.
    """

    max_records: int
    max_batches: int | None = None
    max_seconds: int | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
