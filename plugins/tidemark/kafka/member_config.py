"""The librdkafka configuration of a member."""

from collections.abc import Mapping
from typing import Any

from tidemark.kafka.admin import quiet
from tidemark.model.membership import GroupProtocol, Membership

OWN: dict[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 5_000,
}
"""librdkafka keys that a member sets itself, whatever the connection says."""

DEFAULTS: dict[str, str | int | bool] = {"reconnect.backoff.max.ms": 2_000}
"""librdkafka keys that a connection may set otherwise."""

CHOSEN = (
    "group.protocol",
    "group.protocol.type",
    "group.instance.id",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
)
"""librdkafka keys that the pipeline's membership decides: the connection's are left out."""


def member_config(
    connection: Mapping[str, str], group_id: str, client_id: str, membership: Membership
) -> dict[str, Any]:
    """A connection's configuration, under what is a member's own and what membership decides.

    A key of CHOSEN never comes from the connection: members share that, not their names.
    """
    kept = {key: value for key, value in connection.items() if key not in CHOSEN}
    names = {"group.id": group_id, "client.id": client_id}
    return quiet({**DEFAULTS, **kept, **names, **own_settings(membership)})


def own_settings(membership: Membership) -> dict[str, str | int | bool]:
    """What a member with this membership sets itself."""
    poll = max(membership.poll_interval_ms, membership.session_timeout_ms)
    chosen = OWN | {
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
