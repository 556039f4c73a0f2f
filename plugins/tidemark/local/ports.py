"""Ports for servers that cannot let the system choose theirs, as clients must know it before."""

import random
import socket
from collections.abc import Collection
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LAST = 30_000
MANY = 15_000


def candidates(ephemeral: Path = EPHEMERAL) -> range:
    """Ports that no outgoing connection takes while their server is down.

    They lie below the kernel's range of ephemeral ports: from 32,768 on unless Linux was told
    otherwise, from 49,152 on in macOS. Where nothing is left below it, they lie within it.
    """
    try:
        first = int(ephemeral.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = LAST
    end = min(first, LAST)
    begin = max(1024, end - MANY)
    return range(begin, end) if end - begin > 1000 else range(LAST - MANY, LAST)


def unused(besides: Collection[int]) -> int:
    """A port that nobody has, nor has reserved, and that is none of these."""
    choices = [port for port in candidates() if port not in besides]
    random.shuffle(choices)
    return next(port for port in choices if is_free(port) and _is_unreserved(port))


def is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def reserved(port: int) -> socket.socket | None:
    """What keeps others from choosing the port until it is closed; None if another has it.

    It is a UDP socket of that number: TCP has numbers of its own, so a server can take the port
    meanwhile. Should this process die the reservation is gone too.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    return held


def _is_unreserved(port: int) -> bool:
    held = reserved(port)
    if held:
        held.close()
    return held is not None
