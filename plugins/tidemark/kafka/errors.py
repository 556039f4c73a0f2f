"""What can be met at Kafka: silence and refusals of brokers, and logs without what is needed."""

from tidemark.errors import (
    CorruptRecord,
    DataLost,
    Fenced,
    InvalidSettings,
    MirrorFailed,
    OutputTooLarge,
    Refused,
    Unreachable,
)
from tidemark.model.corruption import leave_out
from tidemark.model.errors import GO_ON
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.output import Topics
from tidemark.model.plain import amount


class BrokersSilent(
    Unreachable,
    text="{what}: no broker answered in {seconds:g} s; look whether they run",
):
    what: str
    """What was asked for: `topic flights`."""
    seconds: float


AWAY = {
    "_TRANSPORT": "start the broker, or correct bootstrap.servers and security.protocol",
    "_RESOLVE": "correct the host in bootstrap.servers",
    "_SSL": "check security.protocol and the keys ssl.*: the certificate must be trusted here",
    "_AUTHENTICATION": "correct sasl.mechanism, sasl.username and sasl.password",
}
"""What to do, by the client's name of the error."""


class BrokersUnreachable(Unreachable):
    """The client can't connect to any broker, and says why."""

    what: str
    """What was asked for: `topic flights`."""
    answer: str
    """The client's name of the error: _TRANSPORT."""
    cause: str
    """With host and port, in the client's words."""

    def __str__(self) -> str:
        hint = AWAY.get(self.answer, "check the Kafka connection")
        return f"{self.what}: no broker can be reached: {self.cause}; {hint}"


SILENCES = ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""What the client says where no broker has answered it."""


class KafkaAnswersError(Unreachable):
    """A request has failed with an error that may pass."""

    what: str
    answer: str
    """The error's name in Kafka's protocol, or the client's own."""
    cause: str

    def __str__(self) -> str:
        is_silent = self.answer in SILENCES
        answer = (
            f"no broker answers ({self.answer})" if is_silent else f"Kafka answers {self.answer}"
        )
        return f"{self.what}: {answer}: {self.cause}; check the Kafka connection"


class KafkaForbids(
    Refused,
    text="{what}: Kafka answers {answer}; grant READ and DESCRIBE on the topics, READ on the"
    " group, WRITE and DESCRIBE on the transactional id (docs/administration.md)",
):
    what: str
    answer: str


class KafkaTopicMissing(
    InvalidSettings,
    text="{what} does not exist; create it or correct kafka.topics",
):
    what: str


class OutputTopicMissing(
    InvalidSettings,
    text="topic {topic} does not exist; create it, with as many partitions as its consumers need,"
    " or correct output.topic or dead_letters.topic",
):
    topic: str


class NoTopicMatches(
    InvalidSettings,
    text="no topic matches {patterns:list}: create one or correct kafka.topics (the pattern must"
    " match the whole name, and the user must be allowed to describe the topic)",
):
    patterns: tuple[str, ...]


class PartitionsUnlisted(
    Unreachable,
    text="topic {topic}: the broker listed no partitions; try again",
):
    topic: str


class OAuthMethodMissing(
    InvalidSettings,
    text="connection {connection!r}: sasl.mechanism is OAUTHBEARER, and sasl.oauthbearer.method is"
    " not oidc: nobody makes the token. Tokens that Airflow's own hook makes (Amazon MSK by IAM,"
    " Google's Kafka) are not made here: set the method to oidc, with the client's id, its secret"
    " and sasl.oauthbearer.token.endpoint.url; or log in by SCRAM or TLS",
):
    connection: str


class KerberosLoginRefused(
    InvalidSettings,
    text="connection {connection!r}: {key} becomes part of the command kinit; use letters, digits"
    " and . / @ : _ - alone",
):
    connection: str
    key: str


class GroupDescriptionDied(
    Unreachable,
    text="group {group}: the process that asked ended with {status}: {last_words}; check the"
    " brokers and the Kafka connection",
):
    group: str
    status: int
    last_words: str


class MirrorWriterFenced(Fenced, text="mirror of group {group}: a newer mirror writer took over"):
    group: str


class MirrorTopicsGone(MirrorFailed):
    """Kafka takes no group offsets for topics that it does not have."""

    group: str
    topics: tuple[str, ...]
    """Empty where Kafka has them again, or lists others only."""

    def __str__(self) -> str:
        gone = ", ".join(self.topics) or "of a topic"
        return (
            f"mirror of group {self.group}: {gone}: Kafka has no such topic or partition, and takes"
            " no offsets for it. Was it deleted? The rows are safe; the next open names what is"
            " gone, and asks whether to go on without it"
        )


class OutputTopicGone(OutputTopicMissing):
    """A topic that rows or dead letters are sent to went while a mirror wrote there."""

    def __str__(self) -> str:
        return f"{OutputTopicMissing.__str__(self)}. The rows are safe, and are sent then"


_ENDED = "group member {client_id} of {group} can't take part: {cause}"


class MemberEnded(Unreachable, text=_ENDED):
    client_id: str
    group: str
    cause: str


class StaticNameTaken(
    MemberEnded,
    text=_ENDED + "; another process took over its name {instance_id}: two drivers with one static"
    " name are running: this one ends, the newer one goes on",
):
    instance_id: str


class SessionOutOfBounds(InvalidSettings, text=_ENDED):
    client_id: str
    group: str
    cause: str
    session_timeout_ms: int
    bounds: tuple[int, int] | None
    """In ms; None: the broker does not tell."""

    def __str__(self) -> str:
        allowed = f"{self.bounds[0]} to {self.bounds[1]} ms" if self.bounds else "another range"
        return (
            f"{super().__str__()}; its session time-out is"
            f" {self.session_timeout_ms} ms and the broker allows {allowed}"
            " (group.min.session.timeout.ms, group.max.session.timeout.ms):"
            " set kafka.session_timeout_seconds within it"
        )


class GroupSharesOtherwise(InvalidSettings, text=_ENDED):
    client_id: str
    group: str
    cause: str
    assignment_strategy: tuple[str, ...]
    """Empty: the group_protocol is consumer, and the broker shares."""

    def __str__(self) -> str:
        shares = (
            f"assignment_strategy {', '.join(self.assignment_strategy)}"
            if self.assignment_strategy
            else "group_protocol consumer"
        )
        return (
            f"{super().__str__()}; the other members of the group do"
            f" not support its {shares}: give all members of the region the same"
            " kafka.group_protocol and kafka.assignment_strategy"
        )


class OffsetNotHeld(DataLost):
    """Kafka does not hold an offset that has to be read, or holds another history there."""

    topic_partition: TopicPartition
    offset: int
    log_range: tuple[int, int] | None
    """Where the log begins and ends; None: the broker does not tell."""
    cause: str

    def __str__(self) -> str:
        known = (
            f"the log begins at {self.log_range[0]} and ends at {self.log_range[1]}"
            if self.log_range
            else "its log range is unknown"
        )
        return (
            f"{self.topic_partition}@{self.offset} is needed, but Kafka does not hold it:"
            f" {known} ({self.cause}). Nothing was skipped. Restore the records; {GO_ON}"
        )


class PartitionGone(
    DataLost,
    text="{topic_partition}@{offset} is gone: the topic or the partition no longer exists. If the"
    " topic was created again, its offsets name other records; " + GO_ON,
):
    topic_partition: TopicPartition
    offset: int


class SpanNotRead(Unreachable):
    """Kafka refuses the read of a span, or nothing of it came for too long."""

    topic_partition: TopicPartition
    offset: int
    brokers: str | None
    seconds: float | None = None
    """How long nothing came; None: Kafka refuses."""
    cause: str
    """What the client complained of last."""

    def __str__(self) -> str:
        is_refused = self.seconds is None
        fact = "Kafka refuses the read" if is_refused else f"no progress for {self.seconds:g} s"
        return (
            f"{self.topic_partition}@{self.offset}: {fact}, brokers {self.brokers}: {self.cause};"
            " check the brokers and the Kafka connection, then run again"
        )


class RecordsNotAsked(Unreachable):
    """Kafka's client gave records of a partition that is not read: it is not to be believed."""

    topic_partition: TopicPartition
    records: int

    def __str__(self) -> str:
        return (
            f"Kafka's client gave {amount(self.records, 'record')} of {self.topic_partition}, which"
            " this task does not read. Nothing of the read was kept; a retry has a new client"
        )


class BatchUnreadable(CorruptRecord):
    """A record batch that can't be read lies at an offset; how far it reaches is not known yet."""

    topic: str
    partition: int
    offset: int
    cause: str | None = None
    """What was found there; None: a worker died of it, and other processes do."""
    is_packed: bool = False
    """Its checksum is right, and it does not unpack."""

    def __str__(self) -> str:
        cause = self.cause
        if cause is None:
            cause = "a worker crashed here, and the offset cannot be read in isolation either"
        where = f"{TopicPartition(self.topic, self.partition)}@{self.offset}"
        if self.is_packed:
            return (
                f"{where} does not unpack, though its checksum is right: {cause}. Nothing was"
                " skipped. If it is larger than the client takes (receive.message.max.bytes,"
                " 100 MB), set kafka.max_unpacked_bytes in the pipeline file: records that are"
                " still too large become dead letters. If not, it is corrupt"
            )
        return (
            f"{where} is corrupt in Kafka:"
            f" {cause}. Nothing was skipped. Restore the records, then run again"
        )


class CorruptRange(CorruptRecord):
    """Exactly these offsets can't be read."""

    topic: str
    partition: int
    offset: int
    span: Span
    found: str
    """The error as it was where the read met it."""

    def __str__(self) -> str:
        return f"{self.found}; {leave_out(self.span)}"


class RangeNotLeftOut(Refused):
    """A range that a person wants to leave out is not exactly one batch that can't be read."""

    span: Span
    readable: int | None = None
    """An end of the range that can be read."""
    second: int | None = None
    """Where another corrupt batch begins in it; None of both: nothing there can be told."""

    def __str__(self) -> str:
        return (
            f"{self.span} is not left out: {self._fault}. Nothing was changed. Run without"
            " --accept-corrupt: CORRUPT_RECORD then names the range, if it is still corrupt"
        )

    @property
    def _fault(self) -> str:
        if self.readable is not None:
            return f"offset {self.readable} can be read"
        if self.second is not None:
            return f"it holds two corrupt batches, one begins at {self.second}; name each"
        return (
            "Kafka does not say which batch is there, and no record after the range could be read,"
            " so its end is unknown"
        )


class OutputRecordTooLarge(
    Refused,
    text="a record is larger than Kafka takes in {topics.named} ({cause}): raise max.message.bytes"
    " of the topic, and message.max.bytes where the connection's extra sets it",
):
    topics: Topics
    cause: str


class OutputRecordInvalid(
    Refused,
    text="{topics.named}: Kafka does not take a record ({cause}). A compacted topic takes none"
    " without a key: set output.key, or cleanup.policy=delete on a topic of dead letters. Nothing"
    " was sent",
):
    topics: Topics
    cause: str


class OutputForbidden(
    Refused,
    text="{topics.named}: Kafka answers {answer}; grant WRITE and DESCRIBE",
):
    topics: Topics
    answer: str


class OutputNotSentInTime(
    OutputTooLarge,
    text="the rows could not be sent to {topics.named} in one transaction of {seconds} s; nothing"
    " of them was. Raise output.max_seconds (up to the brokers' transaction.max.timeout.ms), or"
    " lower output.max_rows if they are of several batches; lower batch.max_records for batches to"
    " come. One that stays too large can be withheld by `tidemark withhold`",
):
    topics: Topics
    seconds: int
