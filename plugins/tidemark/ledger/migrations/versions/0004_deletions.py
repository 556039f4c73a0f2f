"""Until when deletions that nobody has read may be relied on."""

from tidemark.ledger.migrations import execute

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Keep what tells how long nobody has read a partition."""
    execute("0004_deletions")
