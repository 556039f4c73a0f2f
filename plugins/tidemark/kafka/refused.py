"""What ends a membership: the errors after which joining again cannot help, in our words."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import TidemarkError
from tidemark.kafka.admin import translated
from tidemark.kafka.errors import (
    GroupSharesOtherwise,
    MemberEnded,
    SessionOutOfBounds,
    StaticNameTaken,
)
from tidemark.kafka.sessions import session_bounds
from tidemark.model.membership import GroupProtocol, Membership

_FORBIDDEN = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}

REFUSALS = {
    KafkaError._FATAL,
    KafkaError._AUTHENTICATION,
    *_FORBIDDEN,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
}


def refusal(
    error: KafkaError, config: Mapping[str, str], membership: Membership, client_id: str, group: str
) -> TidemarkError:
    """What is said to a member that Kafka answered so."""
    cause = f"Kafka answers {error.name()}: {error.str()}"
    match error.code():
        case KafkaError.INVALID_SESSION_TIMEOUT:
            return SessionOutOfBounds(
                client_id=client_id,
                group=group,
                cause=cause,
                session_timeout_ms=membership.session_timeout_ms,
                bounds=session_bounds(config),
            )
        case KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            is_classic = membership.group_protocol is GroupProtocol.classic
            return GroupSharesOtherwise(
                client_id=client_id,
                group=group,
                cause=cause,
                assignment_strategy=membership.assignment_strategy if is_classic else (),
            )
        case KafkaError._FATAL if membership.instance_id:
            return StaticNameTaken(
                client_id=client_id, group=group, cause=cause, instance_id=membership.instance_id
            )
    ended = MemberEnded(client_id=client_id, group=group, cause=cause)
    if error.code() in _FORBIDDEN:
        return translated(KafkaException(error), str(ended))
    return ended
