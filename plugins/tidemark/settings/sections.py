"""What all sections of a pipeline file have in common, and the small ones.

`batch`, `complete`, `executors`, `readers`, `spark`, `transform`, and the project whose code they
name.
"""

import os
import stat
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from tidemark.model.periods import Calendar, Every
from tidemark.model.plan import MAX_BIGINT, MOST_IN_FLIGHT, Bounds

CONNECTION = r"^[A-Za-z0-9_.-]{1,100}$"

CARRIED = "carried"
"""In the context of validation: a DAG carries it. What its author wrote is then data to whoever
reads it: no file is opened, no pattern compiled."""

Positive = Annotated[int, Field(gt=0, le=MAX_BIGINT)]


class Strict(BaseModel):
    """A section of the file: unknown keys are refused, nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


MOST_LATENESS = 31 * 86_400


class BatchSettings(Strict):
    """Bounds of a batch and of a run."""

    seconds: Positive | None = 5
    """Seconds that the drain of a batch, and its publish, may take. The plan computes the number of
    records from the rate of the newest batches, and at most doubles that of the batch before.
    `null`: only the bounds below count."""
    max_records: Positive = 1_000_000
    """Offsets in one batch at most, shared fairly over the partitions. With an output topic the
    default is `output.max_rows`, because each batch is sent in one transaction."""
    max_bytes: Positive | None = 256 << 20
    """Bytes of values in one batch at most, estimated from the sizes of earlier batches."""
    max_batches: Positive | None = None
    """Batches in one run."""
    max_seconds: Positive | None = None
    """Seconds after which a run plans no further batch. A run with a backlog publishes at least
    one."""
    in_flight: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] = 2
    """Batches at work at once: with 2, the next one is drained while one is published."""

    def bounds(self) -> Bounds:
        """Make the core's Bounds of these settings, which have the same names."""
        return Bounds(**self.model_dump())


class CompleteSettings(Strict):
    """Hours or days; the close sends an event for each when it is complete."""

    every: Every
    """hour or day."""
    zone: str = "UTC"
    """Time zone of the periods, such as Europe/Berlin."""
    lateness_seconds: Annotated[int, Field(ge=0, le=MOST_LATENESS)] = 900
    """A period is complete when the region is complete so many seconds after its end. You state
    that its records are in Kafka by then; nobody can prove it."""

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str, info: ValidationInfo) -> str:
        """Lower-case names are no zones: localtime is another one on each machine."""
        if (info.context or {}).get(CARRIED):
            return zone
        try:
            if zone[:1].isupper():
                return ZoneInfo(zone).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
        raise ValueError(
            "must be a name of the IANA time zone database, such as Europe/Berlin or UTC"
        )

    def calendar(self) -> Calendar:
        """The core's Calendar of these settings."""
        lateness = timedelta(seconds=self.lateness_seconds)
        return Calendar(self.every, ZoneInfo(self.zone), lateness)


ConnectionId = Annotated[str, Field(pattern=CONNECTION)]


class Logins(Strict):
    """Connections with fewer rights than the drivers' own; left out: the drivers' own."""

    kafka: ConnectionId | None = None
    """Airflow connection of type kafka, in the place of kafka.connection."""
    warehouse: ConnectionId | None = None
    """Airflow connection of type postgres, in the place of the target's: the same database."""


SPARK_DEFAULT = "spark_default"
"""Airflow's own name for it. The one connection that need not be there: Spark runs here then."""


class SparkSettings(Strict):
    """Where the job of a batch runs."""

    connection: Annotated[str, Field(pattern=CONNECTION)] = SPARK_DEFAULT
    """Airflow connection of type spark. Without the default one the command line runs it here."""


TRANSFORM = r"^[\w.]+:\w+$"


class TransformKind(StrEnum):
    """What a transform takes and returns."""

    arrow = "arrow"
    dataframe = "dataframe"


@dataclass(frozen=True, slots=True)
class NamedTransform:
    """A transform as the file names it; nothing is imported."""

    function: str
    """module:function."""
    kind: TransformKind | None
    """None: its annotations say it."""
    targets: tuple[str, ...]
    """The targets that it makes rows for, by name."""
    project: Path


JOBS = "jobs"
_ENDS = (".git", "dags")
"""What a repository's or a bundle's root holds: nothing above it is the pipeline's."""


def project_of(file: Path) -> Path:
    """The nearest folder above the pipeline file with jobs/ in it; the file's own if there is none.

    It ends at the root of the file's repository or bundle, and below the first folder that others
    may write, or that is another account's: what they put there would be run as the driver. Where
    everybody may write the file's own folder, as on a disk without rights, this tells nothing.
    """
    own = file.resolve().parent
    owners = None if _is_everybodys(own) else {0, os.geteuid(), own.stat().st_uid}
    for folder in (own, *own.parents):
        if folder != own and not _is_ours(folder, owners):
            break
        if _is_ours(folder / JOBS, owners):
            return folder
        if any((folder / one).exists() for one in _ENDS):
            break
    return own


def _is_everybodys(folder: Path) -> bool:
    """One that is gone is nobody's secret."""
    if not folder.exists():
        return True
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _is_ours(folder: Path, owners: set[int] | None) -> bool:
    """A folder of these owners, which nobody else may write; None: any folder."""
    if not folder.is_dir() or owners is None:
        return folder.is_dir()
    found = folder.stat()
    is_others = found.st_mode & stat.S_IWOTH
    is_foreign = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, *os.getgroups()}
    return found.st_uid in owners and not is_others and not is_foreign
