"""Java's options for the JVMs that a driver starts, where nobody has set others."""

import sys
from importlib.metadata import version
from pathlib import Path

OPTIONS = "SPARK_SUBMIT_OPTS"
"""What spark-submit, and pyspark, give the driver's JVM."""

QUICK = "-XX:TieredStopAtLevel=1"
"""For a JVM that only schedules: half the CPU time until the first task runs.

Not where it also encrypts: that compiler knows no instructions for AES.
"""

LATE = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""For any other: Java optimizes what ran ten times as often as by default.

By default it spends most of a run of some minutes on optimizing Spark's planner. With these the JVM
of a DataFrame transform takes 0.75 of the CPU time for 0.7 million records in batches of 50,000,
one that no row passes 0.6 for a million.
"""

LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the JVM that only composes the driver's command line: 0.15 s of CPU time."""

SILENT = "-Xlog:cds*=off"
"""Java warns of an archive that it can't use. What else a user has it log stands."""


def archive() -> Path:
    """Where the archive of the installed Spark stands, if somebody has made it."""
    return Path(sys.prefix) / "share" / "tidemark" / f"spark-{version('pyspark')}.jsa"


def with_archive(options: str) -> str:
    """The options of the driver's JVM, and the archive if one was made and they name none."""
    path = archive()
    if "-Xshare" in options or "Archive" in options or not path.exists():
        return options
    return f'{options} "-XX:SharedArchiveFile={path}" {SILENT}'.lstrip()
