"""The librdkafka configurations of a region: what its connection says, under what Tidemark sets."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.kafka.errors import BootstrapServersMissing, KafkaConnectionRunsCode
from tidemark.model.membership import GroupProtocol, Membership
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection

Settings = dict[str, str | int | bool]

MEMBER_SETTINGS: Settings = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 5_000,
}

MEMBER_DEFAULTS: Settings = {"reconnect.backoff.max.ms": 2_000}
"""A connection may set them otherwise."""

READER_SETTINGS: Settings = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "check.crcs": True,
}

READER_DEFAULTS: Settings = {
    "group.id": "tidemark-reader",
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
    "fetch.max.bytes": 2 << 20,
    "queued.max.messages.kbytes": 16_384,
    "log_level": 0,  # what librdkafka has to say stands in the errors raised here
}
"""A connection may set them otherwise. The group id is never joined."""

READ_AHEAD = 200_000
"""Records that a reader keeps ready at most."""

FETCH_BYTES = range(64 << 10, 1 << 20)
"""Asked of a partition at once: a batch that is larger needs an answer of its own."""

BYTES_AN_OFFSET = 1024
"""Asked for beyond that; where records are larger, a batch comes all the same."""

MEMBERSHIP = (
    "group.protocol",
    "group.protocol.type",
    "group.instance.id",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
)
"""What the pipeline's membership decides: clients share a connection, not their names."""

OVERRIDDEN = frozenset(
    {
        *MEMBER_SETTINGS,
        *READER_SETTINGS,
        *MEMBERSHIP,
        "group.id",
        "transactional.id",
        "enable.idempotence",
    }
)
"""Keys that Tidemark sets itself: they are never taken from the connection."""

REFUSED = ("plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location")
"""Keys that would run code of the connection's choice."""


def kafka_config(connection: Connection) -> dict[str, str]:
    """The librdkafka configuration of a Kafka connection, without the keys Tidemark sets itself.

    Raises:
        InvalidSettings: no bootstrap.servers, or a key that would run foreign code.
    """
    if refused := tuple(key for key in REFUSED if key in connection.extra):
        raise KafkaConnectionRunsCode(connection=connection.conn_id, keys=refused)
    if not connection.extra.get("bootstrap.servers"):
        raise BootstrapServersMissing(connection=connection.conn_id)
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in connection.extra.items()
        if key not in OVERRIDDEN
    }


def quiet(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without librdkafka's chatter: what matters stands in the errors raised."""
    return {**config, "log_level": 0}


def reader_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a reader: a connection's, with the keys that exactness needs.

    If the group id lacks the ACL Describe, the broker's complaint is ignored: a reader needs no
    group.
    """
    return {**READER_DEFAULTS, **config, **READER_SETTINGS}


def fetching(spans: Sequence[Span]) -> Settings:
    """How much is fetched at once for these spans: not far more than they hold.

    In powers of two: a client serves all readings that are about as large. A connection may set it
    otherwise.
    """
    widths = [span.width for span in spans]
    wanted = FETCH_BYTES.start + _power_of_two(max(widths)) * BYTES_AN_OFFSET
    return {
        "fetch.message.max.bytes": min(wanted, FETCH_BYTES.stop),
        "queued.min.messages": min(_power_of_two(sum(widths)), READ_AHEAD),
    }


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def member_config(
    config: Mapping[str, str], group_id: str, client_id: str, membership: Membership
) -> dict[str, Any]:
    """The configuration of a member: a connection's, under its own and what membership decides."""
    names = {"group.id": group_id, "client.id": client_id}
    return quiet({**MEMBER_DEFAULTS, **config, **names, **member_settings(membership)})


def member_settings(membership: Membership) -> Settings:
    """What a member with this membership sets itself."""
    poll = max(membership.poll_interval_ms, membership.session_timeout_ms)
    chosen = MEMBER_SETTINGS | {
        "group.protocol": str(membership.group_protocol),
        "max.poll.interval.ms": poll,
    }
    if membership.group_protocol is GroupProtocol.consumer:
        return chosen
    if membership.instance_id:
        chosen["group.instance.id"] = membership.instance_id
    return chosen | {
        "partition.assignment.strategy": ",".join(membership.assignment_strategy),
        "session.timeout.ms": membership.session_timeout_ms,
        "heartbeat.interval.ms": membership.session_timeout_ms // 5,
    }
