"""The kind of a reset."""

from tidemark.ledger.migrations import execute

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Give each audit row its kind."""
    execute("0003_reset_kind")
