"""A pause of a region with an output: Kafka forgets what was sent with the group's offsets."""

from datetime import timedelta

from tidemark.kafka.admin import offsets_kept_minutes
from tidemark.ledger.looks import Looks
from tidemark.operations.region import Region

SHARE = 2
"""A pause of half the time that Kafka keeps offsets may be too long the next time."""


def pause_remarks(region: Region) -> list[str]:
    """What a person should know of the pause that ends with this open; nothing if it was short."""
    if region.group.output is None:
        return []
    looks = Looks(region.ledger.engine)
    ended_at = looks.newest_end(region.name)
    minutes = offsets_kept_minutes(region.kafka) if ended_at else None
    if ended_at is None or minutes is None:
        return []
    pause = looks.now() - ended_at
    if pause * SHARE < timedelta(minutes=minutes):
        return []
    return [
        f"nobody was in the group for {pause.total_seconds() / 3600:.1f} h, and Kafka keeps the"
        f" offsets of such a group for {minutes / 60:.1f} h (offsets.retention.minutes): what was"
        " sent to the output topic is known by them. Raise it, or run more often; if they are lost,"
        " a person has to set output.resume_after"
    ]
