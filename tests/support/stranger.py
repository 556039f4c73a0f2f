"""Another consumer in a region's group: one that nobody invited, or a member that died."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from confluent_kafka import Consumer
from tests.support.waiting import until
from tests.support.world import World


@contextmanager
def consumer_beside(
    world: World, strategy: str = "cooperative-sticky", client_id: str = "console"
) -> Iterator[Consumer]:
    """A consumer that was in the region's group first; whoever goes on polling stays there."""
    settings = {
        "group.id": world.region,
        "client.id": client_id,
        "enable.auto.commit": False,
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 200,  # so soon it hears that others came
    }
    consumer = Consumer({"bootstrap.servers": world.kafka, **settings})
    consumer.subscribe([world.topic])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    try:
        yield consumer
    finally:
        with suppress(RuntimeError):  # closed before
            consumer.close()


@contextmanager
def holder_beside(world: World, client_id: str = "console") -> Iterator[Event]:
    """A consumer that holds its partitions and drains nothing until the event is set."""
    leave = Event()
    with consumer_beside(world, client_id=client_id) as consumer:
        thread = Thread(target=_stay, args=(consumer, leave))
        thread.start()
        try:
            yield leave
        finally:
            leave.set()
            thread.join()


def _stay(consumer: Consumer, leave: Event) -> None:
    while not leave.is_set():
        consumer.poll(0.05)
    consumer.close()
