"""What a rewind removes: as the ledger published it, and as it was found."""

from collections import Counter
from dataclasses import dataclass, replace

from tidemark.errors import Refused
from tidemark.model.contribution import Rows


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows by target, and dead letters, that came after a checkpoint."""

    rows: Rows
    dead_letters: int
    replays: int = 0
    """Dead letters that became rows after it: they are dead letters again."""

    @property
    def total(self) -> int:
        """Rows of all targets."""
        return sum(self.rows.values())

    def check(self, region: str, found: "Removal", what: str = "can't be rewound") -> None:
        """Refuse to remove anything but exactly what was published, of each target.

        Raises:
            Refused: rows or dead letters are missing, or there are more; with the numbers.
        """
        if replace(found, rows=Counter(found.rows)) == replace(self, rows=Counter(self.rows)):
            return
        raise Refused(
            f"region {region} {what}: the ledger published {self}, but {found} would be"
            " removed. Somebody else deleted or inserted rows, or detached a partition of the"
            " table. Nothing was removed. `tidemark verify` names the rows; correct them, or go on"
            " with --accept-changes: what is there is removed and read again. Rows that are now in"
            " another table or a detached partition stay there, and arrive twice"
        )

    def __str__(self) -> str:
        rows = (f"{count} rows{f' of {name}' * bool(name)}" for name, count in self.rows.items())
        replays = f" and {self.replays} replays of dead letters" if self.replays else ""
        return f"{', '.join(rows) or '0 rows'} and {self.dead_letters} dead letters{replays}"
