"""Members, rewinds, histories of partitions, pruning."""

from tidemark.ledger.migrations import execute

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what a region of many members and rewinds needs."""
    execute("0002_regions")
