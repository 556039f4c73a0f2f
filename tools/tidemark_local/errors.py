"""What the local stack can meet: a part that can't be had, or that does not start."""

from pathlib import Path

from tidemark.errors import InvalidSettings, NotStarted, Unreachable

JAVA = (
    "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or point JAVA_HOME at one"
)


class NotInTime(NotStarted):
    """What a start waits for has not come."""

    seconds: float
    """That were waited."""

    def _waited(self, fact: str) -> str:
        return f"{fact} (waited {self.seconds:.0f} s)"


class ServiceNotReady(NotInTime):
    """A service runs and does not answer as it should."""

    service: str
    symptom: str = "is silent"
    """Its predicate: does not register."""
    log: Path
    """A file, or a pattern of several."""

    def __str__(self) -> str:
        return self._waited(f"{self.service} {self.symptom}, see {self.log}")


class StartCommandDoesNotEnd(NotInTime):
    """A command of the start still runs."""

    command: str
    """What it is for: migrating Airflow's database."""

    def __str__(self) -> str:
        return self._waited(f"{self.command} does not end")


class StartCommandFailed(NotStarted, text="{command} failed: {cause} (all of it: {log})"):
    command: str
    """What it is for: migrating Airflow's database."""
    cause: str
    """The line of its log that tells."""
    log: Path


class ServiceEnded(NotStarted, text="{service} ended: {cause} (all of it: {log})"):
    service: str
    cause: str
    """The line of its log that tells."""
    log: Path


class JavaMissing(NotStarted):
    """There is no Java that is new enough."""

    found: Path | None = None
    """One that is too old."""
    version: int | None = None
    """Of that one."""

    def __str__(self) -> str:
        found = f"{self.found} is Java {self.version}" if self.found else "none was found"
        return f"Java 17 or newer is needed and {found}: {JAVA}"


class AccountNotMade(
    NotStarted,
    text="Postgres does not run as root and the account {account} cannot be made: {cause}; make"
    " it, or start the stack as another user",
):
    account: str
    cause: str


class JarNotFetched(
    NotStarted,
    text="{jar} cannot be fetched from {repository} or differs from its SHA-256; check the network"
    " or set TIDEMARK_MAVEN to a mirror ({cause})",
):
    jar: str
    """As Maven writes it: group:module:version."""
    repository: str
    cause: str
    """The class of what was raised."""


class LocalPostgresSilent(
    Unreachable,
    text="the local Postgres, port {port}: {cause}; `tidemark local up` starts it",
):
    port: int
    cause: str


class LocalStatementRefused(InvalidSettings, text="Postgres refuses the statement: {cause}"):
    cause: str


class ServicesUnknown(
    InvalidSettings,
    text="--services {given!r} names no service; choose among {known:list}, separated by commas",
):
    given: str
    known: tuple[str, ...]


class StackMissing(
    InvalidSettings,
    text="no local stack was ever started in {folder}; `tidemark local up` starts one",
):
    folder: Path


class LocalTopicRefused(InvalidSettings, text="topic {topic!r}: {cause}"):
    """Kafka refuses a topic's name, or its number of partitions."""

    topic: str
    cause: str


class LocalKafkaSilent(Unreachable, text="Kafka at {servers}: {cause}"):
    """The Kafka to which lines are to be sent does not answer."""

    servers: str
    cause: str


class LinesNotAcknowledged(Unreachable):
    """The brokers have not taken all lines that were sent."""

    topic: str
    cause: str | None = None
    """What they said of the first; None: nothing."""
    seconds: int
    """That were waited for them."""

    def __str__(self) -> str:
        why = self.cause or f"no answer in {self.seconds} s"
        return f"topic {self.topic}: not all records were acknowledged: {why}"


class LineNotSent(InvalidSettings, text="line {line}: {cause}"):
    """Kafka's client refuses a line."""

    line: int
    cause: str


class LineWithoutKey(
    InvalidSettings,
    text="line {line} is no JSON object with a field {field!r}; leave out --key, or correct the"
    " line",
):
    line: int
    field: str


class PortTaken(
    NotStarted,
    text="{name}: another process has port {port}, where the running parts of this stack expect"
    " {name}. End that process (`lsof -i :{port}` names it), or stop the whole stack with `tidemark"
    " local down`: the next `up` then chooses another port",
):
    name: str
    port: int
