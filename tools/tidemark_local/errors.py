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


class StartCommandFailed(NotStarted):
    """A command of the start ended with another code than 0."""

    command: str
    """What it is for: migrating Airflow's database."""
    cause: str
    """The line of its log that tells."""
    log: Path

    def __str__(self) -> str:
        return f"{self.command} failed: {self.cause} (all of it: {self.log})"


class ServiceEnded(NotStarted):
    """A process of the stack has ended."""

    service: str
    cause: str
    """The line of its log that tells."""
    log: Path

    def __str__(self) -> str:
        return f"{self.service} ended: {self.cause} (all of it: {self.log})"


class JavaMissing(NotStarted):
    """There is no Java that is new enough."""

    found: Path | None = None
    """One that is too old."""
    version: int | None = None
    """Of that one."""

    def __str__(self) -> str:
        found = f"{self.found} is Java {self.version}" if self.found else "none was found"
        return f"Java 17 or newer is needed and {found}: {JAVA}"


class AccountNotMade(NotStarted):
    """Postgres needs an account of its own, and it can't be made."""

    account: str
    cause: str

    def __str__(self) -> str:
        return (
            f"Postgres does not run as root and the account {self.account} cannot be made: "
            f"{self.cause}; make it, or start the stack as another user"
        )


class JarNotFetched(NotStarted):
    """An artifact of Maven can't be had, or is not the one that is meant."""

    jar: str
    """As Maven writes it: group:module:version."""
    repository: str
    cause: str
    """The class of what was raised."""

    def __str__(self) -> str:
        return (
            f"{self.jar} cannot be fetched from {self.repository} or differs from its SHA-256;"
            f" check the network or set TIDEMARK_MAVEN to a mirror ({self.cause})"
        )


class LocalPostgresSilent(Unreachable):
    """The local stack's Postgres does not answer."""

    port: int
    cause: str

    def __str__(self) -> str:
        return f"the local Postgres, port {self.port}: {self.cause}; `tidemark local up` starts it"


class LocalStatementRefused(InvalidSettings):
    """The local Postgres refuses a statement."""

    cause: str

    def __str__(self) -> str:
        return f"Postgres refuses the statement: {self.cause}"


class ServicesUnknown(InvalidSettings):
    """The local stack has no such services."""

    given: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known)
        return f"--services {self.given!r}: choose among {known}, with commas"


class StackMissing(InvalidSettings):
    """In a folder no local stack was ever started."""

    folder: Path

    def __str__(self) -> str:
        return f"no local stack was ever started in {self.folder}; `tidemark local up` starts one"


class LocalTopicRefused(InvalidSettings):
    """Kafka refuses a topic's name, or its number of partitions."""

    topic: str
    cause: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}: {self.cause}"


class LocalKafkaSilent(Unreachable):
    """The Kafka to which lines are to be sent does not answer."""

    servers: str
    cause: str

    def __str__(self) -> str:
        return f"Kafka at {self.servers}: {self.cause}"


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


class LineNotSent(InvalidSettings):
    """Kafka's client refuses a line."""

    line: int
    cause: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.cause}"


class LineWithoutKey(InvalidSettings):
    """A line has no such field to take its key from."""

    line: int
    field: str

    def __str__(self) -> str:
        return (
            f"line {self.line} is no JSON object with a field {self.field!r}; leave out --key, or"
            " correct the line"
        )


class PortTaken(NotStarted):
    """Another process has the port of a server whose clients run and know no other."""

    name: str
    port: int

    def __str__(self) -> str:
        return (
            f"{self.name}: port {self.port} is taken by another process, and what runs already"
            f" knows no other. End that process (`lsof -i :{self.port}` names it), or stop the"
            " whole stack with `tidemark local down`: the next `up` then chooses another port"
        )
