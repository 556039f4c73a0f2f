"""What can be met at Kafka: silence and refusals of brokers, and logs without what is needed."""

from tidemark.errors import (
    CorruptRecord,
    DataLost,
    Fenced,
    InvalidSettings,
    OutputTooLarge,
    Refused,
    Unreachable,
)
from tidemark.model.corruption import leave_out
from tidemark.model.errors import GO_ON
from tidemark.model.offsets import Span, TopicPartition, in_ranges
from tidemark.model.output import Topics
from tidemark.model.plain import amount


class BrokersSilent(Unreachable):
    """No broker has answered a request in time."""

    what: str
    """What was asked for: `topic flights`."""
    seconds: int

    def __str__(self) -> str:
        return f"{self.what}: no broker answered in {self.seconds} s; look whether they run"


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


class KafkaForbids(Refused):
    """An ACL that a request needs is missing."""

    what: str
    answer: str

    def __str__(self) -> str:
        return (
            f"{self.what}: Kafka answers {self.answer}; grant READ and DESCRIBE on the topics, READ"
            " on the group, WRITE and DESCRIBE on the transactional id (docs/administration.md)"
        )


class KafkaTopicMissing(InvalidSettings):
    """A topic that was asked for does not exist."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} does not exist; create it or correct kafka.topics"


class OutputTopicMissing(InvalidSettings):
    """A topic that rows or dead letters are to be sent to does not exist."""

    topic: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic} does not exist; create it, with as many partitions as its"
            " consumers need, or correct output.topic or dead_letters.topic"
        )


class NoTopicMatches(InvalidSettings):
    """The topics are given by patterns alone, and none of them matches one."""

    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"no topic matches {', '.join(self.patterns)}: create one or correct"
            " kafka.topics (the pattern must match the whole name, and the user must be"
            " allowed to describe the topic)"
        )


class PartitionsUnlisted(Unreachable):
    """The broker has described a topic without partitions."""

    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic}: the broker listed no partitions; try again"


class LeadersSilent(Unreachable):
    """Leaders have not told whether a log still leads to a position."""

    partitions: tuple[TopicPartition, ...]
    seconds: float

    def __str__(self) -> str:
        return (
            f"Kafka: no answer for {in_ranges(self.partitions)} within {self.seconds:g} s;"
            " try again"
        )


class KafkaKeysRefused(InvalidSettings):
    """A connection has keys that do not reach the client: some would run code or send files."""

    connection: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"connection {self.connection!r}: {', '.join(self.keys)} is not taken; remove it from"
            " the connection's extra, which may hold librdkafka's keys for login, TLS, sizes and"
            " time-outs"
        )


class OAuthMethodMissing(InvalidSettings):
    """A login by OAUTHBEARER without a method: the client would wait for a token for ever."""

    connection: str

    def __str__(self) -> str:
        return (
            f"connection {self.connection!r}: sasl.mechanism is OAUTHBEARER, and"
            " sasl.oauthbearer.method is not oidc: nobody makes the token. Tokens that Airflow's"
            " own hook makes (Amazon MSK by IAM, Google's Kafka) are not made here: set the method"
            " to oidc, with the client's id, its secret and sasl.oauthbearer.token.endpoint.url;"
            " or log in by SCRAM or TLS"
        )


class KerberosLoginRefused(InvalidSettings):
    """A Kerberos login has characters that a shell would take for something else."""

    connection: str
    key: str

    def __str__(self) -> str:
        return (
            f"connection {self.connection!r}: {self.key} becomes part of the command kinit; use"
            " letters, digits and . / @ : _ - alone"
        )


class BootstrapServersMissing(InvalidSettings):
    """A Kafka connection names no broker."""

    connection: str

    def __str__(self) -> str:
        return (
            f"connection {self.connection!r}: extra has no bootstrap.servers;"
            ' add "bootstrap.servers": "host:9092"'
        )


class GroupNotDescribed(Unreachable):
    """The process that asks for the state of a group gave no answer."""

    group: str
    seconds: int

    def __str__(self) -> str:
        return (
            f"group {self.group}: no answer in {self.seconds} s;"
            " check the brokers and the Kafka connection"
        )


class GroupDescriptionDied(Unreachable):
    """The process that asks for the state of a group ended before it had an answer."""

    group: str
    status: int
    last_words: str

    def __str__(self) -> str:
        return (
            f"group {self.group}: the process that asked ended with {self.status}:"
            f" {self.last_words}; check the brokers and the Kafka connection"
        )


class MirrorWriterFenced(Fenced):
    """A newer writer has the transactional.id of a group's mirror."""

    group: str

    def __str__(self) -> str:
        return f"mirror of group {self.group}: a newer mirror writer took over"


class MemberEnded(Unreachable):
    """A member can't take part in its group any more."""

    client_id: str
    group: str
    cause: str

    def __str__(self) -> str:
        return _ended(self.client_id, self.group, self.cause)


class StaticNameTaken(Unreachable):
    """Another process joined under the static name of a member."""

    client_id: str
    group: str
    cause: str
    instance_id: str

    def __str__(self) -> str:
        return (
            f"{_ended(self.client_id, self.group, self.cause)}; another process took over its name"
            f" {self.instance_id}: two drivers with one static name are running: this one ends, the"
            " newer one goes on"
        )


class SessionOutOfBounds(InvalidSettings):
    """The broker does not allow the session time-out of a member."""

    client_id: str
    group: str
    cause: str
    session_timeout_ms: int
    bounds: tuple[int, int] | None
    """In ms; None: the broker does not tell."""

    def __str__(self) -> str:
        allowed = f"{self.bounds[0]} to {self.bounds[1]} ms" if self.bounds else "another range"
        return (
            f"{_ended(self.client_id, self.group, self.cause)}; its session time-out is"
            f" {self.session_timeout_ms} ms and the broker allows {allowed}"
            " (group.min.session.timeout.ms, group.max.session.timeout.ms):"
            " set kafka.session_timeout_seconds within it"
        )


class GroupSharesOtherwise(InvalidSettings):
    """The other members of a group share its partitions in another way."""

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
            f"{_ended(self.client_id, self.group, self.cause)}; the other members of the group do"
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


class PartitionGone(DataLost):
    """A partition that has to be read does not exist any more."""

    topic_partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return (
            f"{self.topic_partition}@{self.offset} is gone: the topic or the partition no longer"
            f" exists. If the topic was created again, its offsets name other records; {GO_ON}"
        )


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
                f"{where} does not unpack, though its checksum is right: {cause}. It may be larger"
                " than the client takes (receive.message.max.bytes, 100 MB); then"
                " kafka.max_unpacked_bytes in the pipeline file lets it be read, and what is too"
                " large becomes a dead letter. Else it is corrupt. Nothing was skipped"
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


class OutputRecordTooLarge(Refused):
    """A record to be sent is larger than its topic takes."""

    topics: Topics
    cause: str

    def __str__(self) -> str:
        return (
            f"a record is larger than Kafka takes in {self.topics.named} ({self.cause}):"
            " raise max.message.bytes of the topic, and message.max.bytes where the connection's"
            " extra sets it"
        )


class OutputRecordInvalid(Refused):
    """Kafka does not take a record to be sent, whatever its size."""

    topics: Topics
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.topics.named}: Kafka does not take a record ({self.cause}). A compacted"
            " topic takes none without a key: set output.key, or cleanup.policy=delete on a"
            " topic of dead letters. Nothing was sent"
        )


class OutputForbidden(Refused):
    """An ACL that sending needs is missing."""

    topics: Topics
    answer: str

    def __str__(self) -> str:
        return f"{self.topics.named}: Kafka answers {self.answer}; grant WRITE and DESCRIBE"


class OutputNotSentInTime(OutputTooLarge):
    """Sending takes longer than a Kafka transaction may."""

    topics: Topics
    seconds: int

    def __str__(self) -> str:
        return (
            f"the rows could not be sent to {self.topics.named} in one transaction of"
            f" {self.seconds} s; nothing of them was. Raise output.max_seconds (up to the brokers'"
            " transaction.max.timeout.ms), or lower output.max_rows if they are of several batches;"
            " lower batch.max_records for batches to come. One that stays too large can be"
            " withheld by `tidemark withhold`"
        )


def _ended(client_id: str, group: str, cause: str) -> str:
    return f"group member {client_id} of {group} can't take part: {cause}"
