"""A primary and its streaming replica: two real servers, one of which can fall behind."""

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from tests.support.waiting import until

from tidemark_local._folder import Folder
from tidemark_local.daemon import end, marked
from tidemark_local.postgres import ADMIN, HBA, Account, Postgres
from tidemark_local.watch import Watch


class Replica(Postgres):
    """A server that begins as a copy of another and streams from it."""

    def __init__(self, folder: Folder, primary: Postgres) -> None:
        super().__init__(folder, name="replica")
        self._primary = primary

    def parameters(self, database: str = "warehouse", role: str | None = None) -> dict[str, Any]:
        return self._primary.parameters(database, role) | {"port": self.port}

    def _initialise(self, programs: Path, home: Path, account: Account, watch: Watch) -> None:
        admin = self._primary.parameters("postgres", ADMIN)
        part = home / "data.part"
        argv: list[str | Path] = [programs / "pg_basebackup", "-D", part, "-R", "-c", "fast"]
        argv += ["-h", admin["host"], "-p", str(admin["port"]), "-U", admin["user"]]
        env = os.environ | {"PGPASSWORD": admin["password"]}
        what = "copying the primary"
        watch.run(argv, what=what, log=self._daemon.log, cwd=home, env=env, **account.options)
        part.rename(home / "data")

    def _provide(self) -> None:
        """Its roles and databases are the primary's."""


class Pair:
    """The two servers, as one connection names them."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self.primary = Postgres(self._folder, name="primary")
        self.replica = Replica(self._folder, self.primary)

    @property
    def parameters(self) -> dict[str, Any]:
        """The warehouse, wherever its primary is."""
        ports = f"{self.primary.port},{self.replica.port}"
        several = {"host": "127.0.0.1,127.0.0.1", "port": ports}
        return self.primary.parameters() | several | {"target_session_attrs": "read-write"}

    def start(self) -> None:
        """Both run, and the replica has what the primary has."""
        self._folder.create()
        self.primary.start()
        data = self._folder.root / self.primary.name / "data"
        with (data / "pg_hba.conf").open("a") as hba:
            hba.write(HBA.replace("host all", "host replication"))
        administered(self.primary, "SELECT pg_reload_conf()")
        self.replica.start()
        until(self.is_level)

    def is_level(self) -> bool:
        """Whether the replica shows every commit of the primary."""
        [(end_of_log,)] = administered(self.primary, "SELECT pg_current_wal_lsn()::text")
        shown = "SELECT coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"
        [(is_level,)] = administered(self.replica, shown, end_of_log)
        return bool(is_level)

    def part(self) -> None:
        """The replica receives nothing any more."""
        administered(self.replica, "ALTER SYSTEM SET primary_conninfo = ''")
        administered(self.replica, "SELECT pg_reload_conf()")
        until(lambda: not administered(self.replica, "SELECT 1 FROM pg_stat_wal_receiver"), 60)

    def fail_over(self) -> None:
        """The primary is gone, and the replica has taken over with what it has."""
        self.primary.stop("immediate")
        assert administered(self.replica, "SELECT pg_promote(true, 60)") == [(True,)]

    def end(self) -> None:
        """No process of the two runs; nothing is kept."""
        for server in (self.replica, self.primary):
            server.stop("immediate")
            server.erase()
        end(marked(self._folder), grace=2)
        shutil.rmtree(self._folder.root, ignore_errors=True)


def administered(server: Postgres, statement: str, *values: str) -> list[tuple[Any, ...]]:
    """Run a statement as the server's administrator, outside any transaction."""
    with closing(psycopg2.connect(**server.parameters("postgres", ADMIN))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []
