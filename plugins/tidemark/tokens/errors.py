"""Errors of token callbacks. None holds what one has returned, or the text of what it raised."""

from tidemark.errors import InvalidSettings, Unreachable


class CallbackNotListed(
    InvalidSettings,
    text="connection {conn_id!r}: {key} names {path!r}, which this installation does not list."
    " Whoever runs Airflow adds it to token_callbacks, section tidemark, of Airflow's"
    " configuration; outside of Airflow, to the variable TIDEMARK_TOKEN_CALLBACKS",
):
    conn_id: str
    key: str
    path: str


class CallbackNotImported(
    InvalidSettings,
    text="token callback {path!r} can't be imported ({cause}): install its module wherever a"
    " process logs in: on Airflow's workers, triggerer and api-server, and on Spark's executors",
):
    path: str
    cause: str
    """The class of Python's error, and the name that it misses."""


class CallbackFailed(
    Unreachable,
    text="token callback {path!r} raised {cause}. Its text is not shown: it may hold a token. Call"
    " it by hand on this machine, and as this account",
):
    path: str
    cause: str
    """The class of what it raised."""


class CallbackAnswerUnfit(
    InvalidSettings, text="token callback {path!r} returned {found}, and not {wanted}: correct it"
):
    path: str
    found: str
    """Types alone."""
    wanted: str


class TokenExpired(
    Unreachable,
    text="token callback {path!r} returned a token that expired {seconds:.0f} s ago: let it make a"
    " new one at each call, or correct this machine's clock",
):
    path: str
    seconds: float
