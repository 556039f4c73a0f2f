"""Where fields come from that the file does not declare, and what a new one does."""

from enum import StrEnum

from tidemark.settings.errors import FormatNotRegistered


class Schema(StrEnum):
    """Where the fields come from, if they are not declared."""

    infer = "infer"
    registry = "registry"


class OnNewField(StrEnum):
    """What a field does that is not declared."""

    ignore = "ignore"
    refuse = "refuse"
    add = "add"


FORMATS = ("avro", "protobuf")
"""Whose schemas say what the columns are."""


def refuse_registry(format_name: str) -> None:
    """Refuse `schema: registry` where a subject does not say what the columns are.

    Raises:
        InvalidSettings: for any other format.
    """
    if format_name not in FORMATS:
        raise FormatNotRegistered(format=format_name, allowed=FORMATS)
