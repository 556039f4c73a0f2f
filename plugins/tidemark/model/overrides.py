"""Overrides: what a person may accept for one run or one rewind; the ledger keeps their names.

The command line's options and the forms of the DAGs bear the same names.
"""

ACCEPT_CHANGES = "accept_changes"
"""Goes on with another configuration than the checkpoint was made with; a rewind, with other rows
than the ledger published."""

ACCEPT_CORRUPT = "accept_corrupt"
"""Leaves out ranges that Kafka can't read, and names them: `accept_corrupt topic[0]@[10, 20)`."""

ACCEPT_DATA_LOSS = "accept_data_loss"
"""Goes on where Kafka lost what the ledger needs, or where nobody would read it again."""

ACCEPT_RESEND = "accept_resend"
"""Takes back what was sent to an output topic: it is sent again."""

ADOPT_GROUP = "adopt_group"
"""Lets a new region replace the commits of its group."""

TAKE_OVER = "take_over"
"""Fences another run that is at work."""
