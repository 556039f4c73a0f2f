"""What a rewind removes: as the ledger published it, and as it was found."""

from collections import Counter
from dataclasses import dataclass, replace

from tidemark.model.batch import Rows
from tidemark.protocol.errors import RemovalDiffers


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

    def refuse_difference(self, region: str, found: "Removal") -> None:
        """Refuse to remove anything but exactly what was published, of each target.

        Raises:
            Refused: rows or dead letters are missing, or there are more; with the numbers.
        """
        if replace(found, rows=Counter(found.rows)) == replace(self, rows=Counter(self.rows)):
            return
        raise RemovalDiffers(region=region, published=self, found=found)

    def __str__(self) -> str:
        rows = (f"{count} rows{f' of {name}' * bool(name)}" for name, count in self.rows.items())
        replays = f" and {self.replays} replays of dead letters" if self.replays else ""
        return f"{', '.join(rows) or '0 rows'} and {self.dead_letters} dead letters{replays}"
