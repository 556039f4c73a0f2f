"""How a region's next run comes about."""

from tidemark.ledger.migrations import execute

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables of refused opens and of doorbells."""
    execute("0006_starts")
