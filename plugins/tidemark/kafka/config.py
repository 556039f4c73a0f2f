"""The librdkafka configurations of a region: what its connection says, under what Tidemark sets."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.kafka.errors import CallbackNotUsed, KerberosLoginRefused, OAuthMethodMissing
from tidemark.model.membership import GroupProtocol, Membership
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, ConnectionKeysRefused
from tidemark.tokens import clouds
from tidemark.tokens.callbacks import ARGUMENT, OAUTH

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

BATCH_BY_BATCH: Settings = {"fetch.message.max.bytes": 1, "queued.min.messages": 1}
"""The client asks for one batch once it has given out the one before."""

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

TAKEN = frozenset(
    {
        "bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "security.protocol",
        "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url", OAUTH, ARGUMENT,
        "https.ca.location", "https.ca.pem",
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
        "ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.keystore.location",
        "ssl.keystore.password", "ssl.crl.location", "ssl.cipher.suites", "ssl.curves.list",
        "ssl.sigalgs.list", "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "broker.address.family", "broker.address.ttl", "connections.max.idle.ms",
        "enable.sparse.connections",
        "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
        "retry.backoff.max.ms", "metadata.max.age.ms", "log_level",
        "socket.timeout.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable",
        "socket.nagle.disable", "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
        "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes",
        "fetch.queue.backoff.ms", "fetch.wait.max.ms", "max.partition.fetch.bytes",
        "message.max.bytes", "queued.max.messages.kbytes", "queued.min.messages",
        "receive.message.max.bytes",
        "acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level",
        "compression.type", "linger.ms", "message.timeout.ms", "queue.buffering.max.kbytes",
        "queue.buffering.max.messages", "queue.buffering.max.ms", "request.timeout.ms",
        "transaction.timeout.ms",
    }
)  # fmt: skip
"""Keys of a connection's extra that reach librdkafka: login, TLS, sizes and time-outs.

All others are refused: some load a library (`ssl.providers`), run a command (`…kinit.cmd`) or send
a file to an address of the connection's choice (`sasl.oauthbearer.assertion.file`).
"""

_IN_COMMAND = ("sasl.kerberos.principal", "sasl.kerberos.keytab")
_PLAIN = re.compile(r"[\w./@:-]*")
"""librdkafka puts a Kerberos login into a command of the shell."""


def kafka_config(connection: Connection) -> dict[str, str]:
    """The librdkafka configuration of a Kafka connection, without the keys Tidemark sets itself.

    Raises:
        InvalidSettings: no bootstrap.servers, a key or a value that is not taken, or a login by
            a token that nobody makes.
    """
    config = _taken(connection)
    if not config.get("bootstrap.servers"):
        raise ConnectionIncomplete(
            conn_id=connection.conn_id,
            missing="bootstrap.servers in its extra",
            remedy='add "bootstrap.servers": "host:9092"',
        )
    if not _logs_in_by_token(config):
        if OAUTH in config:
            raise CallbackNotUsed(connection=connection.conn_id)
        return config
    if OAUTH not in config:
        config |= clouds.kafka_keys(config["bootstrap.servers"])
    if OAUTH not in config:
        raise OAuthMethodMissing(connection=connection.conn_id)
    return config


def _taken(connection: Connection) -> dict[str, str]:
    """The keys of the extra, as texts."""
    config = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in connection.extra.items()
        if key not in OVERRIDDEN
    }
    if unknown := tuple(sorted({*config} - TAKEN)):
        taken = "librdkafka's keys for login, TLS, sizes and time-outs"
        raise ConnectionKeysRefused(conn_id=connection.conn_id, keys=unknown, taken=taken)
    for key in _IN_COMMAND:
        if not _PLAIN.fullmatch(config.get(key, "")):
            raise KerberosLoginRefused(connection=connection.conn_id, key=key)
    return config


def _logs_in_by_token(config: Mapping[str, str]) -> bool:
    """Whether the client waits for tokens that it does not fetch itself."""
    mechanisms = {config.get(key, "").upper() for key in ("sasl.mechanism", "sasl.mechanisms")}
    method = config.get("sasl.oauthbearer.method", "").lower()
    return "OAUTHBEARER" in mechanisms and method != "oidc"


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
