"""Options that say which dead letters are meant."""

import re
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.errors import InvalidSettings
from tidemark.model.dead_letters import LetterFilter
from tidemark.model.offsets import TopicPartition

Reasons = Annotated[
    list[str] | None,
    typer.Option(
        "--reason", metavar="REASON", help="Only with this reason; may be given several times."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only those published then or later (UTC without a zone)."),
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only those published before then.")
]
Partition = Annotated[
    str | None, typer.Option(metavar="TOPIC[N]", help="Only of this partition: 'flights[3]'.")
]

_PARTITION = re.compile(r"(.+)\[([0-9]{1,9})\]")


def letter_filter(
    reasons: list[str] | None, since: str | None, until: str | None, partition: str | None = None
) -> LetterFilter:
    """The dead letters that the options mean.

    Raises:
        InvalidSettings: a time or a partition can't be read.
    """
    return LetterFilter(
        tuple(reasons or ()), _time("--since", since), _time("--until", until), _place(partition)
    )


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSettings(
            f"{option} {text!r} is not a time; write it such as 2026-01-31T12:00:00Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _place(text: str | None) -> TopicPartition | None:
    if text is None:
        return None
    found = _PARTITION.fullmatch(text)
    if not found or int(found[2]) >= 2**31:
        raise InvalidSettings(f"{text!r} is not a partition; write it such as 'flights[3]'")
    return TopicPartition(found[1], int(found[2]))
