"""What a broker's settings say of groups: bounds of sessions, and how long offsets are kept."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import ConfigResource

from tidemark.errors import TidemarkError
from tidemark.kafka.admin import SECONDS, Admin, request

BOUNDS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")


def session_bounds(config: Mapping[str, str]) -> tuple[int, int] | None:
    """The shortest and the longest session time-out in ms; None where that may not be asked."""
    settings = broker_settings(config)
    if settings is None:
        return None
    low, high = (int(settings[name].value) for name in BOUNDS)
    return low, high


def offsets_kept_minutes(config: Mapping[str, str]) -> int | None:
    """How long the offsets of a group without members are kept; None where it may not be asked."""
    settings = broker_settings(config)
    return None if settings is None else int(settings["offsets.retention.minutes"].value)


def broker_settings(config: Mapping[str, str]) -> Any:
    """The settings of one broker by their names; None where that may not be asked.

    It needs the ACL DescribeConfigs on the cluster, which Tidemark does not need otherwise.
    """
    admin = Admin(config)
    try:
        return request(admin, lambda: _settings(admin), "broker settings")
    except TidemarkError:
        return None


def _settings(admin: Admin) -> Any:
    cluster = request(
        admin, lambda: admin.describe_cluster(request_timeout=SECONDS), "the Kafka cluster"
    )
    broker = ConfigResource(ConfigResource.Type.BROKER, str(cluster.nodes[0].id))
    return admin.describe_configs([broker], request_timeout=SECONDS)[broker]
