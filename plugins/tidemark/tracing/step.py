"""Steps of a run, and what is told of them."""

from collections.abc import Mapping
from dataclasses import dataclass

Attributes = Mapping[str, str | int | float | bool]


@dataclass(slots=True)
class EndedStep:
    """A step that is over, of which it was not known what it would belong to."""

    name: str
    begin_ns: int
    end_ns: int = 0


class Step:
    """A step that has begun; here one that nobody traces."""

    def tell(self, attributes: Attributes) -> None:
        """More is known of it now."""

    def end(self, error: BaseException | None = None) -> None:
        """It is over, or failed; the first end counts."""
