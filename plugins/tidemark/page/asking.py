"""How the pages ask, so that Airflow's api-server never waits for them.

Its own threads and its event loop are left alone: there are few threads of ours, behind short
queues, and who finds a queue full is told to come again. Airflow's database is asked by some of
them, in sessions that end before anything else is asked. Connections come from whichever secrets
backend Airflow uses. Ledgers and Kafka are asked by helper processes, each with a deadline. One
answer is shared by all who ask the same, for some seconds.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from queue import Full, Queue
from threading import Lock, Thread, Timer, local
from typing import Any, TypeVar

from airflow.sdk import Connection as AirflowConnection
from airflow.utils.session import create_session
from sqlalchemy.orm import Session

from tidemark.airflow.compat import AirflowException, conf
from tidemark.deadline import Deadline
from tidemark.errors import TidemarkError
from tidemark.page.errors import AnswerTooLate, ConnectionNotOnServer, HelperFailed
from tidemark.page.question import PATIENCE, Answer, Question, answer_in, asked
from tidemark.settings.connections import Connection


def connection(conn_id: str) -> Connection:
    """The connection; one of Postgres gives up soon, as a person waits for it.

    Raises:
        InvalidSettings: Airflow's api-server does not know it, or may not; or it names a token
            callback that is not listed.
    """
    try:
        found = AirflowConnection.get(conn_id)
    except (AirflowException, PermissionError) as error:
        has_teams = conf.getboolean("core", "multi_team", fallback=False)
        raise ConnectionNotOnServer(conn_id=conn_id, has_teams=has_teams) from error
    return _impatient(Connection.from_airflow(found, conf))


def resolved(conn_ids: Iterable[str]) -> dict[str, Connection | TidemarkError]:
    """Each connection, or why there is none."""
    found: dict[str, Connection | TidemarkError] = {}
    for conn_id in conn_ids:
        try:
            found[conn_id] = connection(conn_id)
        except TidemarkError as error:
            found[conn_id] = error
    return found


def _impatient(found: Connection) -> Connection:
    if found.conn_type not in ("postgres", "postgresql"):
        return found
    return replace(found, extra={**found.extra, "connect_timeout": PATIENCE})


SHARED_SECONDS = 2.0
"""An answer is given so long to all who ask the same."""
ANSWER_SECONDS = 20
"""After which the helper that looks is killed, and replaced when it is needed."""
WAIT_SECONDS = 10
"""In a queue; who waits longer is told to come again."""
MOST_BYTES = 32 * 2**20
"""Of an answer."""

_Told = TypeVar("_Told")


class Busy(Exception):
    """All of ours are at work, and enough are waiting."""


class Threads:
    """A few threads, started when they are needed, and a queue that ends."""

    def __init__(self, name: str, many: int, waiting: int) -> None:
        self._name, self._many = name, many
        self._jobs: Queue[tuple[Deadline, Callable[[], Any], Future[Any]]] = Queue(waiting)
        self._lock = Lock()
        self._started = False

    def submit(self, job: Callable[[], _Told]) -> "Future[_Told]":
        """The job's answer.

        Raises:
            Busy: too many wait; the answer may raise it too, after `WAIT_SECONDS`.
        """
        self._start()
        future: Future[_Told] = Future()
        try:
            self._jobs.put_nowait((Deadline(WAIT_SECONDS), job, future))
        except Full:
            raise Busy from None
        return future

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                for number in range(self._many):
                    # Daemons: an api-server that ends waits for no look.
                    Thread(target=self._work, name=f"{self._name}-{number}", daemon=True).start()
                self._started = True

    def _work(self) -> None:
        while True:
            deadline, job, future = self._jobs.get()
            try:
                if deadline.is_past:
                    raise Busy
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
            del job, future


class SharedAnswers:
    """Answers by what was asked: one while it is being found, and for some seconds after."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Future[Any], list[Deadline]]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, start: "Callable[[], Future[_Told]]") -> "Future[_Told]":
        """The answer that is there or under way, or one that begins now; raises as `start`."""
        with self._lock:
            self._known = {
                one: (answer, until)
                for one, (answer, until) in self._known.items()
                if not until or until[0].left
            }
            if key not in self._known:
                future, until = start(), list[Deadline]()
                self._known[key] = future, until
                future.add_done_callback(lambda done: until.append(_shared_until(done)))
            return self._known[key][0]


def _shared_until(done: Future[Any]) -> Deadline:
    """An error of ours is shared like an answer; that all were busy is no answer."""
    is_busy = isinstance(done.exception(), Busy)
    return Deadline(0 if is_busy else SHARED_SECONDS)


class Helper:
    """One helper process, started with the first question."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, line: bytes, seconds: float) -> Answer:
        """The answer; asked again if the process died, for an earlier question may have done it.

        Raises:
            TidemarkError: the helper met it; or it gave no answer in time, or died twice.
        """
        deadline = Deadline(seconds)
        for _ in range(2):
            if found := self._try(line, deadline.left):
                return answer_in(found)
            self._end()
            if not deadline.left:
                raise AnswerTooLate(seconds=seconds)
        raise HelperFailed(cause="it ended without an answer, twice")

    def _try(self, line: bytes, seconds: float) -> bytes | None:
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 (our own program)
                (sys.executable, "-P", "-c", _program()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
            )
        process = self._process
        timer = Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(line)  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            found = process.stdout.readline(MOST_BYTES)  # type: ignore[union-attr]
            return found if found.endswith(b"\n") else None
        except OSError:
            return None
        finally:
            timer.cancel()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _program() -> str:
    """Its modules are found where ours are, and in the same order."""
    path = [*filter(None, sys.path)]
    return f"import sys; sys.path[:] = {path!r}; from tidemark.page.helper import main; main()"


def _environment() -> dict[str, str]:
    """Without Airflow's: its secrets are no business of a helper's, which is handed connections."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}


_AIRFLOW = Threads("tidemark-airflow", 2, 256)
_LOGS = Threads("tidemark-logs", 2, 16)
_HELPERS = Threads("tidemark-look", 3, 16)
_SHARED = SharedAnswers()
_OWN = local()


async def answered(future: "Future[_Told]") -> _Told:
    """The answer; whoever goes away meanwhile takes it from nobody else."""
    return await asyncio.shield(asyncio.wrap_future(future))


async def airflow(ask: Callable[[Session], _Told]) -> _Told:
    """What Airflow's database says, in a session of its own that ends with the answer."""
    return await answered(_AIRFLOW.submit(lambda: _in_session(ask)))


async def airflow_shared(ask: Callable[[Session], _Told]) -> _Told:
    """The same for everybody."""
    return await answered(_SHARED.get(ask, lambda: _AIRFLOW.submit(lambda: _in_session(ask))))


async def airflow_log(key: Hashable, ask: Callable[[Session], _Told]) -> _Told:
    """The same, for what may have to be fetched from afar."""
    return await answered(_SHARED.get(key, lambda: _LOGS.submit(lambda: _in_session(ask))))


def _in_session(ask: Callable[[Session], _Told]) -> _Told:
    with create_session(scoped=False) as session:
        return ask(session)


async def ask_ledgers(question: Question) -> Answer:
    """What ledgers and Kafka say; raises `Busy`, and as `Helper.ask` does."""
    text = question.text
    connections = question.connections
    return await answered(_SHARED.get(text, lambda: _begin(text, connections, ANSWER_SECONDS)))


def _begin(text: str, connections: set[str], seconds: float) -> Future[Answer]:
    def job() -> Answer:
        line = asked(text, resolved(connections))
        if not hasattr(_OWN, "helper"):
            _OWN.helper = Helper()
        found: Answer = _OWN.helper.ask(line, seconds)
        return found

    return _HELPERS.submit(job)


_ONLY: dict[Hashable, tuple[str, Future[Answer]]] = {}


async def ask_ledgers_alone(key: Hashable, question: Question, seconds: float) -> Answer:
    """As `ask_ledgers`; and raises `Busy` while another question is asked under this key."""
    known, text = _ONLY.get(key), question.text
    if known and known[0] != text and not known[1].done():
        raise Busy
    for one in [one for one, (_, future) in _ONLY.items() if future.done()]:
        del _ONLY[one]
    future = _SHARED.get(text, lambda: _begin(text, question.connections, seconds))
    _ONLY[key] = text, future
    return await answered(future)
