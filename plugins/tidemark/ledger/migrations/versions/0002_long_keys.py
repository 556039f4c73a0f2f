"""Keys that an index has no room for."""

from tidemark.ledger.migrations import execute

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Keep them as their digests."""
    execute("0002_long_keys")
