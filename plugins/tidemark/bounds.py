"""Bounds: how much one batch and one run may take."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a batch (records, bytes) and of a run (batches, seconds); None is no limit.

    Raises:
        ValueError: a limit is not positive.
    """

    max_records: int
    max_bytes: int | None = None
    max_batches: int | None = None
    max_seconds: int | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")

    def batch_records(self, bytes_per_record: float | None) -> int:
        """Records that one batch may hold; at least one, or a backlog could never move.

        bytes_per_record is what earlier batches measured; max_bytes waits until it is known.
        """
        if self.max_bytes is None or not bytes_per_record:
            return self.max_records
        return max(1, min(self.max_records, int(self.max_bytes / bytes_per_record)))
