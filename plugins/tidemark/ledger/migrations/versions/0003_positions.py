"""Where the last record before a span ended."""

from tidemark.ledger.migrations import execute

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Keep the offset that a leader epoch holds for."""
    execute("0003_positions")
