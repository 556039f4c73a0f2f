"""Another region that has what a region wants for its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """Another region, with what it has of a region's own."""

    region: str
    group_id: str | None
    tables: tuple[str, ...]

    def __str__(self) -> str:
        group = [f"consumer group {self.group_id!r}"] if self.group_id else []
        targets = [f"target {table}" for table in self.tables]
        return f"region {self.region} has {' and '.join([*group, *targets])}"
