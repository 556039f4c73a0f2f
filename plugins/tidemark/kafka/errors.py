"""Errors of Kafka: brokers are silent or refuse, or a log lacks records that are needed."""

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
    Unreachable, text="{what}: no broker answered in {seconds:g} s; look whether they run"
):
    what: str
    """What was asked for: `topic flights`."""
    seconds: float


AWAY = {
    "_TRANSPORT": "start the broker, or correct bootstrap.servers and security.protocol",
    "_RESOLVE": "correct the host in bootstrap.servers",
    "_SSL": "check security.protocol and the keys ssl.*: the certificate must be trusted here",
    "_AUTHENTICATION": "correct sasl.mechanism, sasl.username and sasl.password, or what oauth_cb"
    " makes",
}
"""The remedy, by the client's name of the error."""


class BrokersUnreachable(Unreachable, text="{what}: no broker can be reached: {cause}; {_remedy}"):
    what: str
    answer: str
    """The client's name of the error: _TRANSPORT."""
    cause: str
    """With host and port, in the client's words."""

    @property
    def _remedy(self) -> str:
        return AWAY.get(self.answer, "check the Kafka connection")


SILENCES = ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""The client's errors when no broker has answered."""


class KafkaAnswersError(Unreachable, text="{what}: {_fact}: {cause}; check the Kafka connection"):
    what: str
    answer: str
    """The error's name in Kafka's protocol, or the client's own."""
    cause: str

    @property
    def _fact(self) -> str:
        is_silent = self.answer in SILENCES
        return f"no broker answers ({self.answer})" if is_silent else f"Kafka answers {self.answer}"


class KafkaForbids(
    Refused,
    text="{what}: Kafka answers {answer}; grant READ and DESCRIBE on the topics, READ on the"
    " group, WRITE and DESCRIBE on the transactional id (docs/administration.md)",
):
    what: str
    answer: str


class KafkaTopicMissing(
    InvalidSettings,
    text="{what} does not exist; create it or correct kafka.topics. If it was deleted,"
    " docs/recovery.md says how to go on (When Kafka has lost records)",
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
    Unreachable, text="topic {topic}: the broker listed no partitions; try again"
):
    topic: str


class OAuthMethodMissing(
    InvalidSettings,
    text="connection {connection!r}: sasl.mechanism is OAUTHBEARER, and nobody makes the token: the"
    " servers are neither Amazon MSK's nor Google's. Set sasl.oauthbearer.method to oidc, with the"
    " client's id, its secret and sasl.oauthbearer.token.endpoint.url; or name a callback in"
    " oauth_cb; or log in by SCRAM or TLS",
):
    connection: str


class CallbackNotUsed(
    InvalidSettings,
    text="connection {connection!r}: oauth_cb is never called: it needs sasl.mechanism OAUTHBEARER,"
    " and no sasl.oauthbearer.method",
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


class MirrorTopicsGone(
    MirrorFailed,
    text="mirror of group {group}: {_gone}: Kafka has no such topic or partition, and takes no"
    " offsets for it. Was it deleted? The rows are safe; the next open names what is gone, and asks"
    " whether to go on without it",
):
    group: str
    topics: tuple[str, ...]
    """Empty where Kafka has them again, or lists others only."""

    @property
    def _gone(self) -> str:
        return ", ".join(self.topics) or "of a topic"


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


class SessionOutOfBounds(
    InvalidSettings,
    text=_ENDED + "; its session time-out is {session_timeout_ms} ms and the broker allows"
    " {_allowed} (group.min.session.timeout.ms, group.max.session.timeout.ms): set"
    " kafka.session_timeout_seconds within it",
):
    client_id: str
    group: str
    cause: str
    session_timeout_ms: int
    bounds: tuple[int, int] | None
    """In ms; None: the broker does not tell."""

    @property
    def _allowed(self) -> str:
        return f"{self.bounds[0]} to {self.bounds[1]} ms" if self.bounds else "another range"


class GroupSharesOtherwise(
    InvalidSettings,
    text=_ENDED + "; the other members of the group do not support its {_shares}: give all members"
    " of the region the same kafka.group_protocol and kafka.assignment_strategy",
):
    client_id: str
    group: str
    cause: str
    assignment_strategy: tuple[str, ...]
    """Empty: the group_protocol is consumer, and the broker shares."""

    @property
    def _shares(self) -> str:
        named = ", ".join(self.assignment_strategy)
        return f"assignment_strategy {named}" if named else "group_protocol consumer"


class OffsetNotHeld(
    DataLost,
    text="{topic_partition}@{offset} is needed, but Kafka does not hold it: {_held} ({cause})."
    " Nothing was skipped. Restore the records; " + GO_ON,
):
    topic_partition: TopicPartition
    offset: int
    log_range: tuple[int, int] | None
    """Where the log begins and ends; None: the broker does not tell."""
    cause: str

    @property
    def _held(self) -> str:
        if self.log_range is None:
            return "its log range is unknown"
        return f"the log begins at {self.log_range[0]} and ends at {self.log_range[1]}"


class PartitionGone(
    DataLost,
    text="{topic_partition}@{offset} is gone: the topic or the partition no longer exists. If the"
    " topic was created again, its offsets name other records; " + GO_ON,
):
    topic_partition: TopicPartition
    offset: int


class SpanNotRead(
    Unreachable,
    text="{topic_partition}@{offset}: {_fact}, brokers {brokers}: {cause}; check the brokers and"
    " the Kafka connection, then run again",
):
    topic_partition: TopicPartition
    offset: int
    brokers: str | None
    seconds: float | None = None
    """How long nothing came; None: Kafka refuses."""
    cause: str
    """What the client complained of last."""

    @property
    def _fact(self) -> str:
        is_refused = self.seconds is None
        return "Kafka refuses the read" if is_refused else f"no progress for {self.seconds:g} s"


class RecordsNotAsked(Unreachable):
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


class CorruptRange(CorruptRecord, text="{found}; {_leave_out}"):
    """Exactly these offsets can't be read."""

    topic: str
    partition: int
    offset: int
    span: Span
    found: str
    """The error as it was where the read met it."""

    @property
    def _leave_out(self) -> str:
        return leave_out(self.span)


class RangeNotLeftOut(
    Refused,
    text="{span} is not left out: {_fault}. Nothing was changed. Run without --accept-corrupt:"
    " CORRUPT_RECORD then names the range, if it is still corrupt",
):
    span: Span
    readable: int | None = None
    """An end of the range that can be read."""
    second: int | None = None
    """Where another corrupt batch begins in it; None of both: nothing there can be told."""

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
    Refused, text="{topics.named}: Kafka answers {answer}; grant WRITE and DESCRIBE"
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
