"""What readers were told of."""

from tidemark.ledger.migrations import execute

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns, and fill them from the runs that were closed."""
    execute("0005_announced")
