"""Who gives a command, as the ledger's records name it."""

import getpass
import socket


def whoami() -> str:
    """The user and the machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
