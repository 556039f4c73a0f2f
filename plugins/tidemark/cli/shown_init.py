"""What `tidemark init` says: what it saw, what it wrote, how to go on."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

from tidemark.cli.first_records import Preview
from tidemark.cli.new_pipeline import TESTING, NewPipeline
from tidemark.cli.output import Output, inert, print_json, print_line, print_table
from tidemark.cli.proposal import Proposal
from tidemark.decode.inferred import NOTHING
from tidemark.decode.outcome import Reason
from tidemark.model.amount import amount
from tidemark.model.upsert import Upsert

LEFT_OUT = (
    "Left out: a field that a column must hold all the same needs a decoder of your own"
    " (docs/formats-own.md), or --raw and a transform"
)


@dataclass(frozen=True, slots=True)
class Initiated:
    """A pipeline that was written."""

    new: NewPipeline
    proposal: Proposal
    tried: Preview
    """What becomes of the first records, decoded as proposed."""
    files: Sequence[Path]

    @property
    def reasons(self) -> dict[str, int]:
        """How many dead letters there are, by reason."""
        return dict(Counter(letter.reason for letter in self.tried.dead_letters))

    @property
    def next(self) -> list[str]:
        """The commands that go on from here."""
        file, test = (quote(os.fspath(path)) for path in (self.new.file, self.new.test))
        verbs = ("check", "preview", "run", "verify")
        return [f"python -m pytest {test}", *(f"tidemark {verb} {file}" for verb in verbs)]


def show(done: Initiated, output: Output) -> None:
    """Print it."""
    if output is Output.json:
        print_json(_answer(done))
        return
    _print_seen(done)
    print_line("Written:", style="bold")
    for path in done.files:
        print_line(f"  {path}")
    print_line("Look at the types, then:", style="bold")
    for command in done.next:
        print_line(f"  {command}")
    if not all(map(find_spec, ("pytest", "sqlglot"))):
        print_line(f"The test needs pytest and, for the table, {TESTING}")


def _answer(done: Initiated) -> dict[str, Any]:
    return {
        "region": done.new.region,
        "records": done.proposal.records,
        "looks_like": {str(kind): count for kind, count in done.proposal.looks.items()},
        "decode": done.proposal.decode,
        "fields": done.proposal.fields,
        "upsert": done.new.upsert,
        "rows": done.tried.decoded,
        "dead_letters": done.reasons,
        "files": [str(path) for path in done.files],
        "next": done.next,
    }


def _print_seen(done: Initiated) -> None:
    found = done.proposal
    looks = ", ".join(f"{count} {kind}" for kind, count in found.looks.items())
    print_line(f"{amount(found.records, 'record')} looked at: {looks}")
    if found.fields:
        rows = [(one.name, one.type or "–", one.nulls, one.why) for one in found.fields]
        print_table(("field", "type", "null or missing", "left out, because"), rows)
    if any(one.type is None and one.why != NOTHING for one in found.fields):
        print_line(LEFT_OUT)
    reasons = ", ".join(f"{count} {reason}" for reason, count in done.reasons.items())
    letters = (
        f"{amount(len(done.tried.dead_letters), 'dead letter')} ({reasons})" if reasons else ""
    )
    decoded = amount(done.tried.decoded, "row")
    print_line(f"Decoded so: {decoded}, {inert(letters or 'no dead letter')}")
    if Reason.NULL_VALUE in done.reasons:
        _print_of_nulls(done)
    if upsert := done.new.upsert:
        _print_upsert(done, upsert)


def _print_of_nulls(done: Initiated) -> None:
    if "envelope" in done.proposal.decode:
        print_line("NULL_VALUE: tombstones of Debezium; what to do: docs/formats-debezium.md")
    elif done.new.upsert:
        print_line("NULL_VALUE: tombstones, which delete no row so; what to do: docs/upserts.md")


def _print_upsert(done: Initiated, upsert: Upsert) -> None:
    key = inert(", ".join(upsert.key))
    print_line(f"Upserted by {key}: of each key the table holds the last row (docs/upserts.md)")
    if done.new.drops_tombstones:
        print_line(f"A deletion deletes the row; {done.new.job} drops the tombstone behind it")
    for one in done.proposal.fields:
        if one.name in upsert.key and one.nulls:
            seen = amount(one.nulls, "record")
            print_line(f"{inert(one.name)}: null or missing in {seen}, which ends a run")
