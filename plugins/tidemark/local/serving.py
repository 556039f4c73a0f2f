"""A server takes its ports while it starts, or is started again."""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext

from tidemark.errors import NotStarted
from tidemark.local.errors import PortTaken
from tidemark.local.folder import Folder
from tidemark.local.ports import is_free, reserved
from tidemark.local.watch import Watch

TRIES = 5
FREED_SECONDS = 20
"""A process that was just stopped keeps its port for a moment."""


def serve(
    folder: Folder,
    names: Collection[str],
    start: Callable[[], object],
    stop: Callable[[], object],
    watch: Watch,
) -> None:
    """The server listens on the folder's ports of these names, and clients may be told of them.

    `start` starts it and waits for its answer; `stop` ends what a failed start has left. If one
    of its ports is taken all the same, then by another process: it is started again, on
    another port, or on the same once that is free if clients were told of it.

    Raises:
        PortTaken: a port of which clients were told stays taken.
        NotStarted: it failed for another reason, or met taken ports TRIES times.
    """
    for left in reversed(range(TRIES)):
        with ExitStack() as until_it_listens:
            for name in names:
                until_it_listens.enter_context(_settled(folder, name, watch))
            try:
                start()
            except NotStarted:
                stop()
                if not left or all(is_free(folder.port(name)) for name in names):
                    raise
            else:
                folder.give(names)
                return


def _settled(folder: Folder, name: str, watch: Watch) -> AbstractContextManager[object]:
    """The port of this name is free, and reserved until the end of the context."""
    port = folder.port(name)
    if not _becomes_free(port, name, watch):
        if folder.has_given(name):
            raise PortTaken(name=name, port=port)
        watch.tell(name, f"port {port} stays taken: it moves to {folder.move_port(name)}")
    while (held := reserved(folder.port(name))) is None and not folder.has_given(name):
        folder.move_port(name)
    return held or nullcontext()


def _becomes_free(port: int, name: str, watch: Watch) -> bool:
    if is_free(port):
        return True
    watch.tell(name, f"port {port} is taken: waiting {FREED_SECONDS} s for it")
    deadline = time.monotonic() + FREED_SECONDS
    while not is_free(port):
        if time.monotonic() >= deadline:
            return False
        watch.sleep(0.1)
    return True
