"""A TCP proxy in front of a server: it cuts and silences connections, and loses COMMITs."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

COMMIT = b"Q\0\0\0\x0bCOMMIT\0"
"""The message of Postgres' protocol by which psycopg2 commits; nothing else is sent with it."""


class Direction(Enum):
    """Of bytes through the proxy."""

    to_server = "to the server"
    to_client = "to the client"


class Doubt(Enum):
    """Where a COMMIT that is never answered is lost."""

    lost = "COMMIT lost on the way there"
    unanswered = "COMMIT done, its answer lost"


@dataclass(eq=False)
class _Link:
    """One client's connection, and the proxy's own to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    port: int
    """The client's: it tells whose connection it is."""
    answers_nothing: bool = False
    speaking: dict[Direction, asyncio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for direction in Direction:
            self.speaking[direction] = asyncio.Event()
            self.speaking[direction].set()

    def cut(self) -> None:
        """Both ends see the connection reset."""
        for event in self.speaking.values():
            event.set()
        for writer in (self.client, self.server):
            writer.transport.abort()


Doubted = Callable[[Doubt, int], None]
"""Hears of each COMMIT without an answer, with its client's port."""


class Proxy:
    """Listens on a port of its own; `target` tells where the server is, which may move."""

    def __init__(self, target: Callable[[], int], doubted: Doubted) -> None:
        self._target = target
        self._doubted = doubted
        self._links: list[_Link] = []
        self._doubts: list[Doubt] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True).start()
        server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = server.sockets[0].getsockname()[1]

    def ports(self) -> list[int]:
        """Those of the clients that are connected."""
        return [link.port for link in list(self._links)]

    def cut(self, port: int) -> None:
        """Cut the client's connection."""
        self._on(port, _Link.cut)

    def silence(self, port: int, direction: Direction) -> None:
        """Nothing passes in this direction of the client's connection until `heal`."""
        self._on(port, lambda link: link.speaking[direction].clear())

    def doubt(self, kind: Doubt) -> None:
        """The next COMMIT that passes is lost so, and its connection with it."""
        self._doubts.append(kind)

    def heal(self) -> None:
        """All passes from now on; connections that were silenced are cut."""
        self._doubts.clear()
        self._loop.call_soon_threadsafe(self._cut_silent)

    def _cut_silent(self) -> None:
        for link in list(self._links):
            if not all(event.is_set() for event in link.speaking.values()):
                link.cut()

    def _on(self, port: int, act: Callable[[_Link], None]) -> None:
        for link in list(self._links):
            if link.port == port:
                self._loop.call_soon_threadsafe(act, link)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target())
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, to_server, writer.get_extra_info("peername")[1])
        self._links.append(link)
        await asyncio.gather(
            self._pump(link, reader, to_server, Direction.to_server),
            self._pump(link, from_server, writer, Direction.to_client),
        )
        self._links.remove(link)

    async def _pump(
        self,
        link: _Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await link.speaking[direction].wait()
                if not self._passes(link, direction, data):
                    break
                writer.write(data)
                await writer.drain()
        link.cut()

    def _passes(self, link: _Link, direction: Direction, data: bytes) -> bool:
        if direction is Direction.to_client:
            if link.answers_nothing:
                self._doubted(Doubt.unanswered, link.port)
            return not link.answers_nothing
        if data != COMMIT or not self._doubts:
            return True
        kind = self._doubts.pop()
        link.answers_nothing = kind is Doubt.unanswered
        if kind is Doubt.lost:
            self._doubted(kind, link.port)
        return link.answers_nothing
