"""The torture's own Kafka and Postgres, each behind a proxy."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from tests.torture.proxy import Doubted, Proxy

from tidemark_local._broker import LocalBroker
from tidemark_local._folder import Folder
from tidemark_local.daemon import end, marked
from tidemark_local.postgres import Postgres


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers run; whoever works with them comes through the proxies."""

    folder: Folder
    broker: LocalBroker
    postgres: Postgres
    to_kafka: Proxy
    to_postgres: Proxy

    @property
    def kafka(self) -> str:
        """The bootstrap servers."""
        return f"127.0.0.1:{self.to_kafka.port}"

    @property
    def admin(self) -> AdminClient:
        """A new admin client."""
        return AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})

    def heal(self) -> None:
        """Both run, and every connection passes."""
        self.to_kafka.heal()
        self.to_postgres.heal()
        self.postgres.start()
        self.broker.start()


@contextmanager
def servers(root: Path, doubted: Doubted) -> Iterator[Servers]:
    """Servers with nothing in them; nothing is left of them in `root`."""
    folder = Folder(root)
    _nothing_is_left(folder)  # of one that was killed
    folder.create()
    to_kafka = Proxy(lambda: folder.port("kafka"), doubted)
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{to_kafka.port}"}
    broker, postgres = LocalBroker(folder, settings=advertised), Postgres(folder)
    to_postgres = Proxy(lambda: postgres.port, doubted)
    try:
        broker.start()
        postgres.start()
        yield Servers(folder, broker, postgres, to_kafka, to_postgres)
    finally:
        _nothing_is_left(folder)


def _nothing_is_left(folder: Folder) -> None:
    end(marked(folder), grace=2)
    Postgres(folder).erase()
    shutil.rmtree(folder.root, ignore_errors=True)
