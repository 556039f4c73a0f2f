"""What keeps a key's last row from being known, and what helps."""

from tidemark.errors import TargetRefused
from tidemark.staging.refusal import Unplaced

SPLIT = "were met in two partitions, so which of their rows is the last is not known"
ORDER = (
    "Set target.order_by (a new run then needs --accept-changes), or key the topic's records by"
    " the same columns"
)
_TIED = "Let the transform return one row a key of each record"
_FOREIGN = (
    "have a last row whose kafka_topic, kafka_partition and kafka_offset are those of no record"
    " of the batch"
)

UNDECIDED: tuple[tuple[str, str, type[Unplaced | TargetRefused]], ...] = (
    ("have a null in a column of the key", "Filter such rows in the transform", Unplaced),
    ("have a null in order_by", "Give each row a value in the transform", Unplaced),
    ("have two last rows of one record", _TIED, TargetRefused),
    (SPLIT, ORDER, TargetRefused),
    (_FOREIGN, "Keep these columns unchanged in the transform", TargetRefused),
)
"""In the order of the query's counts; with the error that says so."""
