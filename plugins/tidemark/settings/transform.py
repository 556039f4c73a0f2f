"""What a pipeline file says of its transform."""

from enum import StrEnum

TRANSFORM = r"^[\w.]+:\w+$"


class TransformKind(StrEnum):
    """What a transform takes and returns."""

    arrow = "arrow"
    dataframe = "dataframe"
