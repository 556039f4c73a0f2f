"""A TCP link whose answers come later: what a server some milliseconds away looks like."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection


@contextmanager
def slow_link(port: int, milliseconds: float) -> Iterator[int]:
    """A port of this machine that leads to another one; each answer comes so much later.

    What is on its way is not held up by what comes behind it: bandwidth stays the same.
    """
    ours, theirs = multiprocessing.Pipe()
    arguments = (port, milliseconds / 1000, theirs)
    link = multiprocessing.Process(target=_serve, args=arguments, daemon=True)
    link.start()
    try:
        yield int(ours.recv())
    finally:
        link.terminate()
        link.join()


def _serve(port: int, seconds: float, told: Connection) -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        with suppress(OSError):
            await asyncio.gather(_pass(reader, requests, 0.0), _pass(answers, writer, seconds))

    async def listen() -> None:
        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(listen())


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Hand over what comes, each piece so many seconds after it came."""
    clock, waiting = asyncio.get_running_loop().time, asyncio.Queue[tuple[float, bytes]]()

    async def receive() -> None:
        data = b"?"
        while data:
            data = await reader.read(1 << 16)
            await waiting.put((clock() + seconds, data))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not data:
                return
            writer.write(data)
            await writer.drain()
    finally:
        receiving.cancel()
        writer.close()
