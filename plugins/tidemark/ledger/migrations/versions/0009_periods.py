"""The periods that readers were told of."""

from tidemark.ledger.migrations import execute

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns: nobody was told of any yet."""
    execute("0009_periods")
