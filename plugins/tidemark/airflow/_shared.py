"""What the doorbells of a triggerer share: one client for each connection, and two threads.

A client is asked for all doorbells at once, by whichever of them comes first; the others take its
answer. It is made anew where it failed, and where Airflow's connection has changed.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from airflow.sdk import Connection as AirflowConnection

from tidemark.airflow.compat import conf
from tidemark.airflow.errors import ConnectionNotGiven
from tidemark.errors import TidemarkError
from tidemark.settings.connections import Connection

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
Answer = TypeVar("Answer")

THREADS = 2
"""For all doorbells: Airflow's own pool, of `min(32, cores + 4)` threads, is for all triggers."""

RENEW_SECONDS = 120.0
"""So old may be what Airflow said of a connection."""

PAUSE_SECONDS = 300.0
"""How long the pause after a failure gets: a server may lock a login that fails too often."""


@dataclass(frozen=True, slots=True)
class CantLook:
    """Why something can't be asked. No exception: its frames would keep a client alive."""

    code: str
    case: str
    text: str

    @classmethod
    def of(cls, error: Exception) -> "CantLook":
        """What the error tells; of one that is not ours its class alone: it may hold anything."""
        if isinstance(error, TidemarkError):
            return cls(error.code, error.case, str(error))
        name = type(error).__name__
        return cls(name, name, name)


class Pause:
    """The time after a failure, twice as long after each."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = float("-inf")

    def longer(self, now: float, least: float) -> None:
        """It failed once more."""
        self._seconds = min(max(least, 2 * self._seconds), PAUSE_SECONDS)
        self._until = now + self._seconds

    def is_on(self, now: float) -> bool:
        """Whether it is not to be asked yet."""
        return now < self._until


class SharedClient(ABC, Generic[Key, Found]):
    """One client of one of Airflow's connections, for all doorbells that ask by it."""

    def __init__(self, conn_id: str, clock: Callable[[], float] = monotonic) -> None:
        self.conn_id = conn_id
        self.clock = clock
        self.keys: Counter[Key] = Counter()
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._renewed_at = self._looked_at = float("-inf")
        self.client: Any = None
        self._pause = Pause()
        self._told: dict[Key, Found | CantLook] | CantLook = {}

    @abstractmethod
    def made(self, connection: Connection) -> Any:
        """A client; in a thread."""

    @abstractmethod
    def asked(self, client: Any, keys: Iterable[Key]) -> dict[Key, Found | CantLook]:
        """What the client tells of each; in a thread.

        Raises:
            TidemarkError: it can't be asked anything.
        """

    def ended(self, client: Any) -> None:
        """Let go of a client; in a thread."""

    async def look(self, key: Key, seconds: float) -> Found | CantLook | None:
        """What is told of the key, at most so many seconds old; None: it was not asked yet."""
        async with self._lock:
            if self.clock() - self._looked_at >= seconds:
                await self.look_anew(seconds)
        return self._told if isinstance(self._told, CantLook) else self._told.get(key)

    async def drop(self) -> None:
        """Let go of the client. It may block at its end, so a thread has it last."""
        last, self.client = [self.client], None
        if last[0] is not None:
            await in_thread(lambda: self.ended(last.pop()))

    async def look_anew(self, seconds: float) -> None:
        """Ask for all keys; keep the answer, or why there is none."""
        try:
            await self.renew()
            if not self._pause.is_on(self.clock()):
                self._told = await in_thread(self._look_in_thread)
                self._pause = Pause()
        except Exception as error:
            self._told = CantLook.of(error)
            self._pause.longer(self.clock(), seconds)
        if isinstance(self._told, CantLook):
            await self.drop()  # else librdkafka would go on to log in
        self._looked_at = self.clock()

    async def renew(self) -> None:
        """Ask Airflow for the connection now and then, and before each login."""
        now = self.clock()
        is_login = self.client is None and not self._pause.is_on(now)
        if not is_login and now - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = now
        found = await resolved(self.conn_id)
        if found != self._connection:
            await self.drop()
            self._connection, self._pause = found, Pause()

    def _look_in_thread(self) -> dict[Key, Found | CantLook]:
        if self.client is None and self._connection:
            self.client = self.made(self._connection)
        return self.asked(self.client, tuple(self.keys))


async def resolved(conn_id: str) -> Connection:
    """The connection as Airflow knows it now.

    Raises:
        InvalidSettings: Airflow does not give it, or it names a token callback that is not listed.
    """
    try:
        return Connection.from_airflow(await AirflowConnection.async_get(conn_id), conf)
    except TidemarkError:
        raise
    except Exception as error:
        raise ConnectionNotGiven(conn_id=conn_id, cause=type(error).__name__) from None


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """What the work returns, which may block."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "tidemark-doorbell")


Clients = dict[tuple[type, str], SharedClient[Any, Any]]

_CLIENTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = WeakKeyDictionary()
"""Of each event loop; a triggerer has one."""

Client = TypeVar("Client", bound=SharedClient[Any, Any])


@asynccontextmanager
async def shared(kind: type[Client], conn_id: str, key: Hashable) -> AsyncIterator[Client]:
    """The client of this kind and connection, which asks for the key too; the last one ends it."""
    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), {})
    client = clients.setdefault((kind, conn_id), kind(conn_id))
    client.keys[key] += 1
    try:
        yield client  # type: ignore[misc]
    finally:
        client.keys -= Counter([key])
        if not client.keys and clients.get((kind, conn_id)) is client:
            del clients[kind, conn_id]
            await client.drop()
