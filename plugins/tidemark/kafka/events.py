"""What happens to a member, by name, in the log of its driver."""

import logging
from enum import StrEnum

from tidemark.kafka.assignment import Partitions
from tidemark.model.offsets import in_ranges

log = logging.getLogger(__name__)


class Event(StrEnum):
    """The names that a person on call looks for."""

    ASSIGNED = "ASSIGNED"
    REVOKED = "REVOKED"
    LOST = "LOST"
    SESSION_TIMED_OUT = "SESSION_TIMED_OUT"
    POLL_INTERVAL_EXCEEDED = "POLL_INTERVAL_EXCEEDED"
    ALL_BROKERS_DOWN = "ALL_BROKERS_DOWN"


WARNINGS = {Event.SESSION_TIMED_OUT, Event.POLL_INTERVAL_EXCEEDED, Event.ALL_BROKERS_DOWN}


def note(client_id: str, event: Event, what: str | Partitions) -> None:
    """The event stands in the log with the partitions it is about, or with a text."""
    text = what if isinstance(what, str) else in_ranges(what) or "nothing"
    level = logging.WARNING if event in WARNINGS else logging.INFO
    log.log(level, "%s: %s: %s", client_id, event, text)
