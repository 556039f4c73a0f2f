"""Java's archive of the broker's classes: a broker that maps it starts with less CPU time.

It stands beside the jars and belongs to them and to one Java; a broker to which it does not belong
leaves it aside and loads as ever (class data sharing, JEP 350).
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tidemark.spark.archive import is_current, keep
from tidemark_local._broker import LocalBroker, archive_of
from tidemark_local._folder import Folder
from tidemark_local._jars import kafka_jars
from tidemark_local.watch import Watch

WRITING_SECONDS = 120
"""A JVM writes the archive as its last act."""


def make_archive(path: Path) -> Path:
    """The archive exists, as a broker left it, and another one has started from it.

    Raises:
        NotStarted: the broker did not start; there is no new archive.
    """
    new = path.with_suffix(".new")
    with TemporaryDirectory() as place:
        folder = Folder(Path(place))
        folder.create()
        _lived(LocalBroker(folder, machine=[f"-XX:ArchiveClassesAtExit={new}"]), leaves=new)
        _lived(LocalBroker(folder, machine=[f"-XX:SharedArchiveFile={new}"]))
    return keep(new, path)


def _lived(broker: LocalBroker, leaves: Path | None = None) -> None:
    broker.start()
    try:
        if leaves:
            leaves.unlink(missing_ok=True)  # the tool that formats has left one, of its own classes
        process = psutil.Process(broker.pid)
        process.terminate()
        process.wait(WRITING_SECONDS)
    finally:
        broker.stop()


def main() -> None:
    """Kafka's jars and the archive are there, fetched and made now if they have to be."""
    path = archive_of(kafka_jars(Watch(lambda _, text: print(f"tidemark: {text}", flush=True))))
    if is_current(path):
        return
    print(
        "tidemark: making Java's archive of Kafka's classes, 50 MB (once for each Java)", flush=True
    )
    print(f"tidemark: Kafka will start from {make_archive(path)}")


if __name__ == "__main__":
    main()
