"""Options that say which dead letters are meant."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.faults import OptionUnreadable, ReasonUnknown
from tidemark.cli.project import connections_of
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.offsets import TopicPartition
from tidemark.model.plain import moment
from tidemark.runs.region import ledger_of
from tidemark.staging.refused import REASON as TARGET_REFUSED

if TYPE_CHECKING:
    from tidemark.settings.pipeline import Pipeline

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


def dead_letter_filter(
    reasons: list[str] | None, since: str | None, until: str | None, partition: str | None = None
) -> DeadLetterFilter:
    """The dead letters that the options mean.

    Raises:
        InvalidSettings: a time or a partition can't be read.
    """
    return DeadLetterFilter(
        tuple(reasons or ()),
        time_of("--since", since),
        time_of("--until", until),
        _place(partition),
    )


def time_of(option: str, text: str | None) -> datetime | None:
    """The time that an option gives; UTC without a zone.

    Raises:
        InvalidSettings: it can't be read.
    """
    if text is None:
        return None
    try:
        return moment(text)
    except ValueError:
        form = "a time; write it like 2026-01-31T12:00:00Z"
        raise OptionUnreadable(option=option, given=text, form=form) from None


def refuse_unknown_reasons(pipeline: "Pipeline", meant: DeadLetterFilter) -> None:
    """Refuse a reason that no dead letter of the region has, and none could have by our decoders.

    Raises:
        InvalidSettings: names those that it has.
    """
    from tidemark.decode import Reason  # Arrow, which it imports, takes half a second

    ours = {*map(str, Reason), TARGET_REFUSED}
    strange = set(meant.reasons) - ours
    if not strange:
        return
    with ledger_of(connections_of(pipeline)[pipeline.warehouse]) as ledger:
        found = ledger.queries.dead_letter_reasons(pipeline.region)
    for reason in sorted(strange - set(found)):
        raise ReasonUnknown(
            region=pipeline.region, reason=reason, found=tuple(found), possible=tuple(sorted(ours))
        )


def _place(text: str | None) -> TopicPartition | None:
    if text is None:
        return None
    found = _PARTITION.fullmatch(text)
    if not found or int(found[2]) >= 2**31:
        form = "a partition; write it like 'flights[3]'"
        raise OptionUnreadable(option="--partition", given=text, form=form)
    return TopicPartition(found[1], int(found[2]))
