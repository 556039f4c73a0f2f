"""Up to when a region is complete."""

from tidemark.ledger.migrations import execute

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the view."""
    execute("0008_completeness")
