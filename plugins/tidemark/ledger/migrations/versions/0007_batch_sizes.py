"""How large a batch is, why, and how long it took."""

from tidemark.ledger.migrations import execute

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns of sizes and times."""
    execute("0007_batch_sizes")
