"""An upsert: of each key the target holds the last row, or none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows are told apart, and which of a key's rows is the last one."""

    key: tuple[str, ...]
    """Columns that tell rows apart."""
    order_by: str | None = None
    """The largest value is the last one; without it a record's offset within its partition."""
    deleted: str | None = None
    """A boolean column: true deletes the key. It is no column of the target."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that it needs of the rows."""
        return (*self.key, *filter(None, (self.order_by, self.deleted)))
