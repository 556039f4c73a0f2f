"""Where fields come from that the file does not declare, and what a new one does."""

from enum import StrEnum

from tidemark.errors import InvalidSettings


class Schema(StrEnum):
    """Where the fields come from, if they are not declared."""

    infer = "infer"
    registry = "registry"


class OnNewField(StrEnum):
    """What a field does that is not declared."""

    ignore = "ignore"
    refuse = "refuse"
    add = "add"


WHY_NOT = {
    "protobuf": "its schemas have several messages, and only a record says which one it is",
}


def refuse_registry(format_name: str) -> None:
    """Refuse `schema: registry` where a subject does not say what the columns are.

    Raises:
        InvalidSettings: for any format but avro, with the reason.
    """
    if format_name != "avro":
        why = WHY_NOT.get(format_name, "only there a registry's schema says what a record has")
        raise InvalidSettings(f"schema: registry is for the format avro: {why}; declare the fields")
