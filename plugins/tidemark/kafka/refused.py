"""What ends a membership: the errors after which joining again cannot help, in our words."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import InvalidSettings, TidemarkError, Unreachable
from tidemark.kafka.admin import translated
from tidemark.kafka.sessions import session_bounds
from tidemark.model.membership import GroupProtocol, Membership

REFUSALS = {
    KafkaError._FATAL,
    KafkaError._AUTHENTICATION,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
}


def refusal(
    error: KafkaError, config: Mapping[str, str], membership: Membership, text: str
) -> TidemarkError:
    """What is said to a member that Kafka answered so; `text` says who and what."""
    match error.code():
        case KafkaError.INVALID_SESSION_TIMEOUT:
            return InvalidSettings(f"{text}; {_session(config, membership.session_timeout_ms)}")
        case KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            return InvalidSettings(
                f"{text}; the other members of the group do not support its {_shares(membership)}:"
                " give all members of the region the same kafka.group_protocol and"
                " kafka.assignment_strategy"
            )
        case KafkaError._FATAL if membership.instance_id:
            return Unreachable(
                f"{text}; another process took over its name {membership.instance_id}: two drivers"
                " with one static name are running, and the newer one goes on"
            )
        case KafkaError.GROUP_AUTHORIZATION_FAILED | KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return translated(KafkaException(error), text)
    return Unreachable(text)


def _session(config: Mapping[str, str], asked: int) -> str:
    bounds = session_bounds(config)
    allowed = f"{bounds[0]} to {bounds[1]} ms" if bounds else "another range"
    return (
        f"its session time-out is {asked} ms and the broker allows {allowed}"
        " (group.min.session.timeout.ms, group.max.session.timeout.ms):"
        " set kafka.session_timeout_seconds within it"
    )


def _shares(membership: Membership) -> str:
    if membership.group_protocol is GroupProtocol.consumer:
        return "group_protocol consumer"
    return f"assignment_strategy {', '.join(membership.assignment_strategy)}"
