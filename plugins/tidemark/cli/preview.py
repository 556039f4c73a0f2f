"""`tidemark preview`: what decode and transform make of real records."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.check.first_records import inferred_of, preview_of, types_of
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    cut,
    print_json,
    print_line,
    print_table,
    screen,
    spinning,
    text_of,
)
from tidemark.cli.project import PipelineFile, connections_of, prepare_spark
from tidemark.model.batch import ONLY
from tidemark.model.plain import amount, inert, plain
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.sample import listed

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemark.model.batch import DeadLetter

CELL_CHARS = 40


def preview(
    pipeline: PipelineFile,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Records to read.")] = 20,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Show the first records that Kafka holds as rows; it writes nothing.

    It begins at the log's start of every partition, and decodes and transforms the records. It also
    shows the dead letters with their reasons, and the types of the records. With `schema: infer` it
    prints a schema to paste instead. It joins no group and does not ask the target. It asks the
    ledger only for the columns of `schema: registry`.

      tidemark preview dags/flights.yaml
      tidemark preview dags/flights.yaml --limit 3 -o json
    """
    loaded = Pipeline.load(pipeline, may_infer=True)
    if loaded.decode.infers_any:
        _print_inferred(loaded, limit, output)
        return
    with spinning("reading"):
        prepare_spark(loaded)
        found = preview_of(loaded, connections_of(loaded), limit)
        types = types_of(loaded, connections_of(loaded), limit)
    if output is ResultFormat.json:
        dead_letters = [plain(one) for one in found.dead_letters]
        rows = {name: listed(table) for name, table in found.rows.items()}
        told = {"rows": rows[ONLY]} if ONLY in rows else {"rows_by_target": rows}
        records = {"records": found.records, "record_types": types.types}
        print_json({**records, "wrappers": types.wrappers, **told, "dead_letters": dead_letters})
        return
    for name, table in found.rows.items():
        if name != ONLY:
            print_line(name, style="bold")
        _print_rows(table)
    _print_dead_letters(found.dead_letters)
    print_line(found.text)
    if types.types:
        print_line(inert(types))
    print_line(f"a batch of a run has {loaded.bounds().told}", style="dim")


def _print_inferred(pipeline: Pipeline, limit: int, output: ResultFormat) -> None:
    with spinning("reading"):
        found = inferred_of(pipeline, connections_of(pipeline), limit)
    if output is ResultFormat.json:
        types = {"record_types": found.types.types, "wrappers": found.types.wrappers}
        print_json({"records": found.records, **types, "inferred": found.fields})
        return
    for line in found.text.split("\n"):
        print_line(inert(line))
    print_line(
        f"# from {amount(found.records, 'record')}: look at each type, then paste it", style="dim"
    )


def _print_rows(rows: "pa.Table") -> None:
    """A table where it fits the screen, else one block a row."""
    names, values = rows.column_names, listed(rows)
    shown = [[_cell(value) for value in row.values()] for row in values]
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    if sum(widths) + 2 * len(widths) <= screen().width:
        print_table(names, shown)
        return
    left = max(map(len, names))
    for number, row in enumerate(shown, start=1):
        print_line(f"row {number}", style="bold")
        for name, value in zip(names, row, strict=True):
            print_line(f"  {name:{left}}  {value}")


def _print_dead_letters(dead_letters: "list[DeadLetter]") -> None:
    if not dead_letters:
        return
    print_line("")
    print_line(amount(len(dead_letters), "dead letter"), style="yellow")
    columns = ("record", "reason", "detail", "value")
    print_table(columns, [_line(one) for one in dead_letters])


def _line(dead_letter: "DeadLetter") -> tuple[object, ...]:
    values = map(_cell, (dead_letter.detail, dead_letter.value))
    return dead_letter.coordinates, dead_letter.reason, *values


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        value = text_of(value)
    return "" if value is None else cut(inert(value), CELL_CHARS)
