"""The faults: each strikes somebody at a random moment, and tells whom, and in which step."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from threading import Event, Timer

import psutil
import psycopg2
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.databases import administer
from tests.support.processes import kill, resume
from tests.support.topics import add_partitions, led, move_group
from tests.support.waiting import outlast
from tests.torture.crew import Crew
from tests.torture.producers import Copier
from tests.torture.proxy import Direction, Doubt, Proxy
from tests.torture.regions import TorturedRegion
from tests.torture.servers import Servers
from tests.torture.steps import STARTING
from tests.torture.tally import TIMES, Tally

NOT_NOW = (psutil.NoSuchProcess, KafkaException, TimeoutError, psycopg2.OperationalError)
"""Whoever was to be struck has ended, or a server is away."""
NOBODY = "nobody"
MOST_PARTITIONS = 8
PAUSES = (0.5, 1, 3, 8)
"""Seconds; a session times out after 2."""
END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename <> current_user AND backend_type = 'client backend' ORDER BY random() LIMIT 2
"""


@dataclass
class Torment:
    """What can be broken, and who is at work meanwhile."""

    servers: Servers
    crew: Crew
    regions: Sequence[TorturedRegion]
    copier: Copier
    tally: Tally
    random: Random
    _over: Event = field(default_factory=Event)
    _paused: list[psutil.Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = self.tally.thread("torment", self._go_on)

    def end(self) -> None:
        """All is healed: servers run, nobody is paused, every connection passes."""
        self._over.set()
        self._thread.join(300)
        for process in self._paused:
            resume(process)
        self.servers.heal()

    @property
    def works(self) -> bool:
        """Whether it strikes on."""
        return self._thread.is_alive()

    def missed(self) -> list[str]:
        """The faults that have met nobody yet."""
        return [name for name in self._faults if not self.tally.struck(name)]

    @property
    def _faults(self) -> dict[str, tuple[int, Callable[[str], None]]]:
        """By the name of each: how often it strikes beside the others, and what it does."""
        kafka, postgres = self.servers.to_kafka, self.servers.to_postgres
        return {
            "SIGKILL to a driver": (12, self._kill_driver),
            "SIGKILL to a worker": (12, self._kill_worker),
            "SIGKILL to the copier": (1, self._kill_copier),
            "SIGSTOP to a driver": (12, self._pause_driver),
            "SIGSTOP to a worker": (8, self._pause_worker),
            "Postgres stopped at once": (12, self._crash_postgres),
            "sessions of Postgres ended": (10, self._end_sessions),
            "connection to Postgres cut": (10, partial(self._cut, postgres)),
            "connection to Kafka cut": (10, partial(self._cut, kafka)),
            **{
                f"{name} is silent {way.value}": (3, partial(self._silence, proxy, way))
                for name, proxy in (("Kafka", kafka), ("Postgres", postgres))
                for way in Direction
            },
            **{kind.value: (15, partial(self._lose_commit, kind)) for kind in Doubt},
            "broker killed": (1, self._crash_broker),
            "broker frozen": (2, self._freeze_broker),
            "partition added": (1, self._add_partition),
            "group offset moved by hand": (2, self._move_group),
        }

    def _go_on(self) -> None:
        """Faults that have met nobody come first, every other time."""
        faults = self._faults
        weights = {name: weight for name, (weight, _) in faults.items()}
        while not self._over.wait(self.random.uniform(0.1, 0.9)):
            missed = self.missed()
            if missed and self.random.random() < 0.5:
                name = self.random.choice(missed)
            else:
                [name] = self.random.choices([*weights], [*weights.values()])
            with suppress(*NOT_NOW):
                faults[name][1](name)

    def _kill_driver(self, fault: str) -> None:
        self._on_one(fault, self.crew.drivers(), kill)

    def _kill_worker(self, fault: str) -> None:
        self._on_one(fault, self._workers(), kill)

    def _pause_driver(self, fault: str) -> None:
        self._on_one(fault, self.crew.drivers(), self._pause)

    def _pause_worker(self, fault: str) -> None:
        self._on_one(fault, self._workers(), self._pause)

    def _kill_copier(self, fault: str) -> None:
        if self.copier.kill():
            self.tally.hit(fault, NOBODY)

    def _crash_postgres(self, fault: str) -> None:
        steps, postgres = self._steps(), self.servers.postgres
        postgres.stop("immediate")
        outlast(self.random.uniform(0, 0.5))
        postgres.start()
        self.tally.hit(fault, TIMES, *steps)

    def _end_sessions(self, fault: str) -> None:
        steps = self._steps()
        administer(self.servers.postgres, END_SESSIONS)
        self.tally.hit(fault, TIMES, *steps)

    def _cut(self, proxy: Proxy, fault: str) -> None:
        self._on_link(fault, proxy, proxy.cut)

    def _silence(self, proxy: Proxy, way: Direction, fault: str) -> None:
        self._on_link(fault, proxy, partial(proxy.silence, direction=way))
        Timer(self.random.uniform(1, 6), proxy.heal).start()

    def _lose_commit(self, kind: Doubt, fault: str) -> None:
        """The proxy tells when it has lost one."""
        self.servers.to_postgres.doubt(kind)

    def doubted(self, kind: Doubt, port: int) -> None:
        """A COMMIT of the client at that port is never answered."""
        self.tally.hit(kind.value, self._steps_by_port().get(port, NOBODY))

    def _crash_broker(self, fault: str) -> None:
        steps, broker = self._steps(), self.servers.broker
        broker.stop(signal.SIGKILL)
        outlast(self.random.uniform(0, 1))
        broker.start()
        self.tally.hit(fault, TIMES, *steps)

    def _freeze_broker(self, fault: str) -> None:
        if pid := self.servers.broker.pid:
            steps, process = self._steps(), psutil.Process(pid)
            process.suspend()
            outlast(self.random.uniform(0.5, 3))
            process.resume()
            self.tally.hit(fault, TIMES, *steps)

    def _add_partition(self, fault: str) -> None:
        admin, topic = self.servers.admin, self.random.choice(self.regions).topic
        if (partitions := led(admin, topic)) < MOST_PARTITIONS:
            add_partitions(admin, topic, partitions + 1)
            self.tally.hit(fault, TIMES, *self._steps())

    def _move_group(self, fault: str) -> None:
        """Kafka allows it while a group has no members: each is tried."""
        admin = self.servers.admin  # what it is asked ends with it
        for region in self.random.sample(self.regions, len(self.regions)):
            at = KafkaPartition(region.topic, 0, self.random.randint(0, 100))
            with suppress(*NOT_NOW):
                move_group(admin, region.pipeline.group, at, 5)
                self.tally.hit(fault, NOBODY)
                return

    def _on_one(
        self, fault: str, processes: Sequence[psutil.Process], act: Callable[[psutil.Process], None]
    ) -> None:
        if processes:
            chosen = self.random.choice(processes)
            step = self.crew.step(chosen.pid)
            act(chosen)
            self.tally.hit(fault, step)

    def _pause(self, process: psutil.Process) -> None:
        process.suspend()
        self._paused.append(process)
        Timer(self.random.choice(PAUSES), resume, [process]).start()

    def _on_link(self, fault: str, proxy: Proxy, act: Callable[[int], None]) -> None:
        """Strike a connection of a program, if there is one."""
        steps = self._steps_by_port()
        if ports := [port for port in proxy.ports() if port in steps]:
            port = self.random.choice(ports)
            act(port)
            self.tally.hit(fault, steps[port])

    def _workers(self) -> list[psutil.Process]:
        """Those that have had a task: others only wait for one."""
        return [one for one in self.crew.workers() if self.crew.step(one.pid) != STARTING]

    def _steps(self) -> list[str]:
        """Of all that are at work."""
        return [self.crew.step(one.pid) for one in self.crew.drivers()]

    def _steps_by_port(self) -> dict[int, str]:
        """Of each connection of a program the step that its process is in."""
        found: dict[int, str] = {}
        for process in self.crew.processes():
            with suppress(psutil.Error):
                step = self.crew.step(process.pid)
                found |= {one.laddr.port: step for one in process.net_connections() if one.laddr}
        return found
