"""`tidemark dead-letters`: records that could not become rows, listed, exported or purged."""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.dead_letters import as_line, export_dead_letters, purge_dead_letters
from tidemark.cli.dead_letter_filter import (
    Partition,
    Reasons,
    Since,
    Until,
    dead_letter_filter,
    refuse_unknown_reasons,
)
from tidemark.cli.faults import OptionsClash, OptionsWithout, PurgeWithoutAge
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    cut,
    in_utc,
    moving,
    print_json,
    print_line,
    print_table,
    text_of,
)
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.plain import amount, inert
from tidemark.runs.region import region_of

if TYPE_CHECKING:
    from tidemark.admin.dead_letters import PurgeReport
    from tidemark.ledger.kept_dead_letters import KeptDeadLetter
    from tidemark.model.dead_letters import DeadLetterFilter
    from tidemark.settings.pipeline import Pipeline


Purge = Annotated[
    bool, typer.Option("--purge", help="Delete the selected ones that are older than --older-than.")
]
OlderThan = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="For --purge: 30d or 12h since their batch was published."),
]

_AGE = re.compile(r"([0-9]{1,6})([dh])")
_UNITS = {"d": "days", "h": "hours"}
_MOST = timedelta(days=36_500)


def refuse_mixed(
    export: Path | None,
    older_than: str | None,
    limit: int | None,
    *,
    raw: bool,
    purge: bool,
    apply: bool,
) -> None:
    """Refuse options that would be passed over: an export removes nothing, and takes all.

    Raises:
        InvalidSettings: names them.
    """
    if purge and export:
        raise OptionsClash(options=("--export", "--purge"), order="export first, then purge")
    of_list = {"--limit": limit is not None, "--raw": raw}
    others = {"--export": export is not None, "--purge": purge}
    for one, other in product(of_list, others):
        if of_list[one] and others[other]:
            raise OptionsClash(options=(one, other))
    given = {"--older-than": older_than is not None, "--apply": apply}
    lone = tuple(name for name, is_given in given.items() if is_given)
    if lone and not purge:
        raise OptionsWithout(options=lone, needed="--purge")


def purge_them(
    pipeline: "Pipeline",
    meant: "DeadLetterFilter",
    older_than: str | None,
    why: str,
    output: ResultFormat,
    *,
    apply: bool,
) -> None:
    """Purge, or say what that would remove."""
    age, order = _age(older_than), order_of(why, apply=apply)
    connections = connections_of(pipeline)
    with moving("dead letters") as move:
        report = purge_dead_letters(
            pipeline,
            connections,
            meant,
            age,
            order,
            lambda done, of: move(done, of, "dead letters"),
        )
    if output is ResultFormat.json:
        print_json(report)
    else:
        _print(report)


def _age(text: str | None) -> timedelta:
    found = _AGE.fullmatch(text or "")
    age = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if age is None or age > _MOST:
        raise PurgeWithoutAge(given=text)
    return age


def _print(report: "PurgeReport") -> None:
    done = "" if report.applied else ", dry run"
    print_line(f"region {report.region}: purge of dead letters{done}")
    print_line(f"  published before  {report.until.isoformat(timespec='seconds')}")
    for reason, count in report.by_reason.items():
        print_line(f"  removed           {count} {reason}")
    for reason, count in report.left.items():
        print_line(f"  left              {count} {reason}: verify needs the rows that were refused")
    if report.unsent:
        print_line(f"  left              {report.unsent}, which are not sent to their topic yet")
    print_line(f"  all               {amount(report.dead_letters, 'dead letter')}")
    if not report.applied and report.dead_letters:
        print_line(DRY)


SHOWN = 20
SHOWN_CHARS = 60


def dead_letters(
    region: RegionName,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, help=f"How many, from the newest; {SHOWN} by default."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Show keys, values, headers whole.")] = False,
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all selected to a new file, one JSON object a line."
        ),
    ] = None,
    purge: Purge = False,
    older_than: OlderThan = None,
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """List a region's dead letters, newest batch first.

    "published" is the time of the batch's publish, which --since and --until use; "timestamp" is
    Kafka's time of the record. If the target refused the record's rows, the list shows these rows;
    the record itself is in Kafka. Keys and values are foreign data: unprintable characters are
    escaped, also with --raw. With -o json key and value are whole, as text and as base64.

    --export writes every selected dead letter to a file, with all fields: bytes as base64, and as
    text if they are UTF-8. The file appears when it is whole, and overwrites nothing.

    --purge deletes the dead letters of batches older than --older-than for good; it is a dry run
    without --apply. The ledger keeps who, why and how many, so verify, reset and rewind stay right.
    Records whose rows the target refused stay. Export dead letters first: purged records can't be
    replayed.

      tidemark dead-letters flights
      tidemark dead-letters flights --reason WRONG_TYPE --since 2026-01-31
      tidemark dead-letters flights --export flights.jsonl
      tidemark dead-letters flights --purge --older-than 30d --apply --why "kept long enough"
      tidemark dead-letters flights --raw --limit 1
      tidemark dead-letters flights -o json | jq -r '.[0].value_base64' | base64 -d
    """
    meant = dead_letter_filter(reason, since, until, partition)
    refuse_mixed(export, older_than, limit, raw=raw, purge=purge, apply=apply)
    pipeline = find_pipeline(region, pipelines)
    refuse_unknown_reasons(pipeline, meant)
    if export:
        _export(pipeline, export, meant, output)
        return
    if purge:
        purge_them(pipeline, meant, older_than, why, output, apply=apply)
        return
    with region_of(pipeline, connections_of(pipeline)) as the_region:
        queries = the_region.ledger.queries
        found = queries.dead_letters(pipeline.region, limit or SHOWN, meant)
    such = "such " if any((reason, since, until, partition)) else ""
    if output is ResultFormat.json:
        print_json([_shape(one) for one in found])
    elif not found:
        print_line(f"region {pipeline.region} has no {such}dead letters")
    elif raw:
        for one in found:
            _print_whole(one)
    else:
        columns = ("seq", "published", "record", "timestamp", "reason", "detail", "value")
        print_table(columns, [_line(one) for one in found])


def _export(
    pipeline: "Pipeline", file: Path, meant: "DeadLetterFilter", output: ResultFormat
) -> None:
    with moving("dead letters") as move:
        count = export_dead_letters(
            pipeline,
            connections_of(pipeline),
            file,
            meant,
            lambda done, of: move(done, of, "dead letters"),
        )
    if output is ResultFormat.json:
        print_json({"region": pipeline.region, "file": str(file), "dead_letters": count})
    else:
        are = f"{amount(count, 'dead letter')} {'is' if count == 1 else 'are'}"
        print_line(f"region {pipeline.region}: {are} in {file}")


def _shape(kept: "KeptDeadLetter") -> dict[str, object]:
    dead_letter = kept.dead_letter
    escaped = {"key_text": text_of(dead_letter.key), "value_text": text_of(dead_letter.value)}
    return as_line(kept) | escaped


def _line(kept: "KeptDeadLetter") -> tuple[object, ...]:
    dead_letter = kept.dead_letter
    detail = inert(dead_letter.detail)
    value = inert(text_of(dead_letter.value) or "") or _rows(kept) or ""
    shown = cut(detail, SHOWN_CHARS), cut(value, SHOWN_CHARS)
    timestamp = _time(dead_letter.timestamp_ms)
    where = dead_letter.coordinates
    return kept.seq, kept.published_at, where, timestamp, dead_letter.reason, *shown


def _rows(kept: "KeptDeadLetter") -> str | None:
    """The rows that the target refused, as JSON."""
    rows = kept.refused_rows
    return None if rows is None else inert(json.dumps(rows, ensure_ascii=False))


def _print_whole(kept: "KeptDeadLetter") -> None:
    dead_letter = kept.dead_letter
    print_line(dead_letter.coordinates, style="bold")
    facts = {
        "batch": kept.seq,
        "published": in_utc(kept.published_at),
        "timestamp": _time(dead_letter.timestamp_ms),
        "reason": dead_letter.reason,
        "detail": dead_letter.detail,
        "key": text_of(dead_letter.key),
        "value": text_of(dead_letter.value),
        "rows": _rows(kept),
    }
    headers = {f"header {one['key']}": f"{one['value']} (base64)" for one in kept.headers or ()}
    for name, value in (facts | headers).items():
        if value is not None:
            print_line(f"  {name:10}{value}")


def _time(milliseconds: int | None) -> str | None:
    """In UTC; the bare number where no calendar reaches."""
    if milliseconds is None:
        return None
    try:
        return in_utc(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
