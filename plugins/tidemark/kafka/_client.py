"""The client of a reading: a process keeps it for the next one, which need not log in again."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.tokens.callbacks import with_oauth

T = TypeVar("T")


def idle_client(kept: list[T]) -> T | None:
    """A client that nobody uses; no other thread gets the same."""
    try:
        return kept.pop()
    except IndexError:
        return None


Note = Callable[[KafkaError], None]

_LIST = 10_000
_KEPT: list["Client"] = []
"""One; more only where several threads read."""
_ABANDONED: list["Client"] = []
"""Keep these clients: freeing one waits for its threads, or aborts the process."""


class Client:
    """A consumer, and who hears its complaints: the reading that it serves now."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._process = os.getpid()
        self._note: Note
        self.is_poisoned = False
        """It met a corrupt batch: its threads may never end."""
        own = {"error_cb": lambda error: self._note(error)}
        self.consumer = Consumer(with_oauth(self._config | own))

    def begin(self, begins: Sequence[KafkaPartition], note: Note) -> None:
        """Read from there on; `note` hears complaints."""
        self._note = note
        self.consumer.assign(list(begins))

    def begin_again(self, begins: Sequence[KafkaPartition], note: Note) -> None:
        """The same, for one that knows the partitions' leaders already.

        A new client asks whether the log still holds a position with an epoch (KIP-320) when it
        learns the leader; this one does so only if it seeks.
        """
        self.begin(begins, note)
        for one in begins:
            if one.leader_epoch is not None:
                self.consumer.seek(one)

    def is_as_new(self, config: Mapping[str, Any], begins: Sequence[KafkaPartition]) -> bool:
        """Whether a reading that begins there may have it, as it may have a new one."""
        if self._process != os.getpid() or self._config != config or not self.is_silent():
            return False
        # It stops in a thread of its own: until then it tells where the last reading stood.
        return all(one.offset == OFFSET_INVALID for one in self.consumer.position(list(begins)))

    def is_silent(self) -> bool:
        """Whether nothing of the last reading comes any more; what it had fetched is dropped.

        From `unassign` on, librdkafka gives no record that was asked for before. What comes all
        the same may be of a corrupt batch behind the last span.
        """
        self.consumer.unassign()
        self.is_poisoned |= bool(self.consumer.consume(_LIST, 0))
        return not self.is_poisoned

    def end(self) -> None:
        """It is not used again; one of a parent process has no threads here."""
        if self.is_poisoned or self._process != os.getpid():
            _ABANDONED.append(self)
        else:
            self.consumer.close()


@contextmanager
def client_for(
    config: Mapping[str, Any], begins: Sequence[KafkaPartition], note: Note
) -> Iterator[Client]:
    """A client that reads from there on, new or as new; it is kept if nothing goes wrong."""
    client = _kept(config, begins, note) or _new(config, begins, note)
    try:
        yield client
    except BaseException:
        client.end()
        raise
    _keep(client)


def _new(config: Mapping[str, Any], begins: Sequence[KafkaPartition], note: Note) -> Client:
    client = Client(config)
    client.begin(begins, note)
    return client


def _kept(config: Mapping[str, Any], begins: Sequence[KafkaPartition], note: Note) -> Client | None:
    """The client that was kept, if it may serve; no other thread gets the same."""
    client = idle_client(_KEPT)
    if client is None:
        return None
    with suppress(KafkaException):
        if client.is_as_new(config, begins):
            client.begin_again(begins, note)
            return client
    client.end()
    return None


def _keep(client: Client) -> None:
    """The next reading may have it; of several threads' clients one is kept."""
    with suppress(KafkaException):
        if not client.is_poisoned and not _KEPT and client.is_silent():
            _KEPT.append(client)
            return
    client.end()
