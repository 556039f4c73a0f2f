"""The ledger."""

from tidemark.ledger.migrations import execute

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the ledger's tables."""
    execute("0001_ledger")
