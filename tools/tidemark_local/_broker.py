"""A real Kafka broker on this machine: KRaft, broker and controller in one process."""

import base64
import signal
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark_local._folder import Folder
from tidemark_local._jars import kafka_jars
from tidemark_local.daemon import Daemon, java, serve
from tidemark_local.errors import ServiceNotReady
from tidemark_local.watch import Watch

HEAP = ("-Xms256m", "-Xmx512m")
MACHINE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SILENT = "-Xlog:cds*=off"
"""About an archive that is not there, or belongs to another Java."""

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

DEVELOPMENT = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    # A mistyped topic is an error; replayed events keep their old timestamps and are not dropped.
    "auto.create.topics.enable": "false",
    "log.retention.ms": -1,
    # What production does in minutes is seen in seconds here.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 10_000,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


class LocalBroker:
    """One node; its data, ports and log lie in the stack's folder.

    `nodes` are all the brokers of its cluster, none by default but itself.
    """

    def __init__(
        self,
        folder: Folder,
        node: int = 1,
        *,
        nodes: Sequence[int] = (),
        heap: Sequence[str] = HEAP,
        machine: Sequence[str] = (),
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        self.node = node
        self._nodes = nodes or (node,)
        self._heap = heap
        self._machine = machine
        self._settings = settings or {}
        self.name = _name(node)
        self._folder = folder
        self._daemon = Daemon(folder, self.name)
        self._home = folder.root / self.name

    @property
    def bootstrap(self) -> str:
        """What a client's bootstrap.servers must say."""
        return f"127.0.0.1:{self._folder.port(self.name)}"

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of its ports."""
        return self.name, f"{self.name}-controller"

    @property
    def pid(self) -> int | None:
        """The running broker's process id."""
        return self._daemon.pid

    def start(self, watch: Watch | None = None) -> bool:
        """The broker answers clients; False if it already ran. It goes on with the data it has.

        Raises:
            NotStarted: Java or a jar is missing, or the broker ended; says where its log is.
        """
        if self._daemon.process is not None:
            return False
        watch = watch or Watch()
        self._daemon.clear()
        serve(self._folder, self.ports, lambda: self.launch(watch), self.stop, watch)
        return True

    def launch(self, watch: Watch) -> None:
        """The broker answers on the ports that the folder names.

        Raises:
            NotStarted: as `start`; or another process has one of the ports.
        """
        runtime, jars = java(), kafka_jars(watch)
        archive = [f"-XX:SharedArchiveFile={archive_of(jars)}", SILENT]
        options = [*self._heap, *MACHINE, *(self._machine or archive), *self._logging()]
        command: list[str | Path] = [runtime, *options, "-cp", f"{jars}/*"]
        properties = self._write_properties()
        if not (self._home / "data" / "meta.properties").exists():
            self._format(command, properties, watch)
        watch.tell("kafka", "starting the broker")
        self._daemon.start([*command, "kafka.Kafka", properties])
        silent = ServiceNotReady(service="Kafka", log=self._daemon.log, seconds=120)
        watch.until(self._answers, silent)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """The broker does not run; SIGKILL is what a crash is like."""
        self._daemon.stop(how)

    def _format(self, command: list[str | Path], properties: Path, watch: Watch) -> None:
        watch.tell("kafka", "formatting the broker's data folder")
        cluster = self._folder.identity("kafka.cluster", _cluster_id)
        watch.run(
            [*command, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties],
            what="formatting Kafka's data folder",
            log=self._daemon.log,
        )

    def _write_properties(self) -> Path:
        port, control = self._folder.port(self.name), self._folder.port(f"{self.name}-controller")
        settings = {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(map(self._voter, self._nodes)),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self._home / "data",
            **_replication(len(self._nodes)),
            **DEVELOPMENT,
            **self._settings,
        }
        path = self._folder.private(self.name) / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _voter(self, node: int) -> str:
        return f"{node}@127.0.0.1:{self._folder.port(f'{_name(node)}-controller')}"

    def _logging(self) -> list[str]:
        path = self._folder.private(self.name) / "log4j2.properties"
        path.write_text(LOGGING)
        return [f"-Dlog4j2.configurationFile={path}"]

    def _answers(self) -> bool:
        self._daemon.must_run()
        port = self._folder.port(self.name)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0 or not self._daemon.listens(port):
                return False
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def archive_of(jars: Path) -> Path:
    """Where Java's archive of the broker's classes stands, if somebody has made it."""
    return jars.with_name(f"{jars.name}.jsa")


def _name(node: int) -> str:
    return "kafka" if node == 1 else f"kafka-{node}"


def _replication(brokers: int) -> dict[str, int]:
    """Internal topics have a replica on each broker, up to three, and bear the loss of one."""
    replicas = min(brokers, 3)
    topics = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    least = {f"{topic}.min.isr": max(1, replicas - 1) for topic in topics[1:]}
    return {f"{topic}.replication.factor": replicas for topic in topics} | least


def _cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # the format tool would take it for an option
            return text
