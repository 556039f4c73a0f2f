"""A record's headers, as the client gives them."""

from collections.abc import Callable, Sequence
from operator import methodcaller

from confluent_kafka import Message

Headers = Sequence[tuple[str, bytes | None]]
"""Key and value, in order. A key with a NUL ends there: the client gives it as a C string."""

HeadersOf = Callable[[Message], Headers | None]
"""All headers of a record; None if the client can't give them."""

_given = methodcaller("headers")
"""`Message.headers()`. Called by name, one that failed may go on and end the process later."""


def headers_of(record: Message) -> Headers | None:
    """All headers of the record in order; None if a key is not UTF-8. To be asked once."""
    try:
        return _given(record) or ()
    except SystemError:  # and never again: the next call would give a list with a hole
        return None
