"""Where a reset goes: to the head, or back to an older place."""

from datetime import UTC, datetime

from tidemark.errors import InvalidSettings
from tidemark.model.bounds import MOST

Destination = int | datetime | None
"""Where a reset goes: None is the head, 0 the initial state, a seq a checkpoint, or a time."""


def destination(text: str) -> Destination:
    """Read last, initial, the seq of a checkpoint, or an ISO 8601 time (UTC without a zone).

    Raises:
        InvalidSettings: it is none of them.
    """
    named: dict[str, Destination] = {"last": None, "initial": 0}
    if text in named:
        return named[text]
    if text.isdecimal():
        return _seq(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSettings(
            f"{text!r} is not a place to reset to: use last, initial, the seq of a checkpoint"
            " (`tidemark checkpoints`), or a time such as 2026-01-31T12:00:00Z"
        ) from None
    return _time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _seq(text: str) -> int:
    if len(text) > len(str(MOST)) or int(text) > MOST:
        raise InvalidSettings(
            f"{text} is not the seq of a checkpoint: the largest possible one is {MOST}."
            " `tidemark checkpoints` lists those that exist"
        )
    return int(text)


def _time(moment: datetime) -> datetime:
    if moment.timestamp() < 0:  # Kafka has other meanings for negative times
        raise InvalidSettings(
            f"{moment.isoformat()} lies before 1970, where Kafka's times begin: use initial for the"
            " initial state"
        )
    return moment
