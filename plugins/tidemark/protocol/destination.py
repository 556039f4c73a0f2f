"""Where a reset goes: to the head, or back to an older place."""

from datetime import UTC, datetime

from tidemark.model.plan import MOST
from tidemark.protocol.errors import ResetPlaceMalformed, ResetSeqTooLarge, ResetTimeTooEarly

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
        raise ResetPlaceMalformed(given=text) from None
    return _time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _seq(text: str) -> int:
    if len(text) > len(str(MOST)) or int(text) > MOST:
        raise ResetSeqTooLarge(given=text, limit=MOST)
    return int(text)


def _time(moment: datetime) -> datetime:
    if moment.timestamp() < 0:  # Kafka has other meanings for negative times
        raise ResetTimeTooEarly(moment=moment)
    return moment
