"""The periods of a calendar that a region becomes complete for, one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)


class Every(StrEnum):
    """How long a period is."""

    hour = "hour"
    day = "day"


@dataclass(frozen=True, slots=True)
class Period:
    """One hour or day; its key is its start on the clocks of its zone."""

    key: str
    """As Airflow writes its own: 2026-10-25T02:00:00. An hour of a zone other than UTC has the
    offset too, +01:00, as a zone may have an hour twice."""
    start: datetime
    end: datetime
    """Not part of it. Both in UTC."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods follow each other without a gap, also where clocks are moved.

    A day has 23 to 25 hours then. Where they move by half an hour, an hour may have 90 minutes.
    """

    every: Every
    zone: ZoneInfo
    lateness: timedelta
    """A period is complete when the region is complete at its end plus this."""

    def complete(self, after: datetime | None, complete_at: datetime) -> Iterator[Period]:
        """Those that end after a time and are complete, oldest first; without one, the newest."""
        whole = complete_at - self.lateness
        begin = after or self._start(self._start(whole) - timedelta.resolution)
        start = self._start(begin)
        while (end := self._next(start)) <= whole:
            yield Period(self._key(start), start, end)
            start = end

    def _start(self, moment: datetime) -> datetime:
        """When the period of a moment began."""
        if self.every is Every.hour:
            start = moment.astimezone(UTC)
            while over := self._over(start):
                start -= over
            return start
        day = moment.astimezone(self.zone).date()
        later = self._midnight(day + timedelta(days=1))  # clocks may go back over midnight
        return later if later <= moment else self._midnight(day)

    def _next(self, start: datetime) -> datetime:
        if self.every is Every.hour:
            over = self._over(start + HOUR)
            return start + HOUR + (HOUR - over if over else over)
        return self._midnight(start.astimezone(self.zone).date() + timedelta(days=1))

    def _over(self, moment: datetime) -> timedelta:
        """How long the clocks have passed the full hour."""
        local = moment.astimezone(self.zone)
        return timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)

    def _midnight(self, day: date) -> datetime:
        """The first one, or when the clocks leave it out."""
        return datetime.combine(day, time.min, self.zone).astimezone(UTC)

    def _key(self, start: datetime) -> str:
        local = start.astimezone(self.zone)
        if self.every is Every.day:
            local = local.replace(hour=0, minute=0)  # clocks may leave out midnight
        is_unique = self.every is Every.day or self.zone.key == "UTC"
        return (local.replace(tzinfo=None) if is_unique else local).isoformat(timespec="seconds")
