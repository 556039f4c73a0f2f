"""What commands that change a region ask of a person: whether to do it, why, and who says so."""

import getpass
import os
import socket
from typing import Annotated

import typer

from tidemark.ledger.actions import Order

Apply = Annotated[bool, typer.Option("--apply", help="Do it. Without --apply nothing changes.")]
Why = Annotated[str, typer.Option(help="The reason, which the ledger keeps with person and time.")]

DRY = "nothing was written; to do it, add --apply"
"""Ends what a dry run prints."""


def order_of(why: str, *, apply: bool) -> Order | None:
    """For the audit row; None for a dry run."""
    return Order(whoami(), why) if apply else None


def whoami() -> str:
    """The user and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's uid may have no name: OSError from Python 3.13 on
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
