"""Three real KRaft brokers, each a process of its own: one can be stopped and started again."""

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.topics import create_topic
from tests.support.waiting import until

from tidemark.model.offsets import TopicPartition
from tidemark_local._broker import LocalBroker
from tidemark_local._folder import Folder
from tidemark_local.daemon import end, marked, serve
from tidemark_local.watch import Watch

NODES = (1, 2, 3)
SETTINGS: dict[str, str | int] = {
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # it takes half of a small heap otherwise
    # A broker that was killed is missed in seconds.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 400,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
}


class Cluster:
    """Three brokers that share partitions, coordinators and the controller quorum."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._brokers = {
            node: LocalBroker(
                self._folder, node, nodes=NODES, heap=("-Xms96m", "-Xmx256m"), settings=SETTINGS
            )
            for node in NODES
        }

    @property
    def bootstrap(self) -> str:
        """All three brokers."""
        return ",".join(broker.bootstrap for broker in self._brokers.values())

    @property
    def admin(self) -> AdminClient:
        """A new admin client of the cluster."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def start(self, *nodes: int) -> None:
        """These brokers answer, all by default, and groups have a coordinator."""
        self._folder.create()
        chosen = nodes or NODES
        waiting = [broker for node in chosen if not (broker := self._brokers[node]).pid]
        watch = Watch()

        def launch() -> None:
            with ThreadPoolExecutor(len(NODES)) as threads:  # none answers before most of them run
                list(threads.map(lambda broker: broker.launch(watch), waiting))

        def stop() -> None:
            for broker in waiting:
                broker.stop(signal.SIGKILL)

        # Each is told where the others are: if one has to move, all start again.
        ports = [name for broker in waiting for name in broker.ports]
        serve(self._folder, ports, launch, stop, watch)
        until(lambda: self.alive() >= set(chosen) and self._coordinates(), 90)

    def stop(self, *nodes: int, how: signal.Signals = signal.SIGKILL) -> None:
        """These brokers do not run, all by default; as if they had crashed."""
        with ThreadPoolExecutor(len(NODES)) as threads:
            list(threads.map(lambda node: self._brokers[node].stop(how), nodes or NODES))

    def end(self) -> None:
        """No process of the cluster runs, whatever became of its pid files; nothing is kept."""
        self.stop()
        end(marked(self._folder), grace=2)
        shutil.rmtree(self._folder.root, ignore_errors=True)

    def alive(self) -> set[int]:
        """The brokers that the cluster knows to run."""
        try:
            return set(self.admin.list_topics(timeout=30).brokers)
        except KafkaException:
            return set()

    def topic(self, name: str, partitions: int) -> str:
        """Make a topic with a replica on every broker."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=len(NODES))
        return create_topic(self.admin, new)

    def unclean_topic(self, name: str, *nodes: int) -> str:
        """Make a topic of one partition on these nodes; one that missed records may lead it."""
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        new = NewTopic(name, 1, replica_assignment=[list(nodes)], config=config)
        return create_topic(self.admin, new)

    def coordinator_of(self, group: str) -> int:
        """The node that coordinates the group."""
        admin = self.admin
        described = admin.describe_consumer_groups([group], request_timeout=60)[group].result(120)
        return int(described.coordinator.id)

    def _coordinates(self) -> bool:
        """Whether the topic of group offsets is there and led; the first question makes it."""
        try:
            return self.coordinator_of("nobody") > 0
        except KafkaException:
            return False

    def leader_of(self, partition: TopicPartition) -> int:
        """The node that leads the partition."""
        found = self.admin.list_topics(partition.topic, timeout=120).topics[partition.topic]
        return int(found.partitions[partition.partition].leader)
