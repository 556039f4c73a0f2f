"""`tidemark withhold`: a published batch is never sent to the output topic."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.withhold import withhold_batch
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import Format, ResultFormat, Verbose, print_json, print_line, spinning
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.plain import amount

if TYPE_CHECKING:
    from tidemark.admin.withhold import WithholdReport


def withhold(
    region: RegionName,
    seq: Annotated[
        int, typer.Argument(min=1, metavar="SEQ", help="The lowest batch that is not sent.")
    ],
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Never send a published batch to the output topic: its consumers miss its rows.

    Use it for a batch that can't be sent: somebody deleted its rows before, the output of an upsert
    was taken out of the file for a while, or the batch is too large for one transaction. If you can
    remove the cause, remove it instead: the next mirror sends the batch.

    It is a dry run without --apply. The rows stay in the target, and `tidemark verify` proves them
    as before. It fences every process and discards unpublished batches, as a reset does, then sends
    the later batches. It refuses a batch that was sent or rewound, and a batch behind an unsent
    one. It can't be taken back. If the batch after SEQ can't be sent either, the command ends with
    that batch's error; SEQ is withheld nevertheless.

    Exits with 0 when the batch is withheld and the rest sent, 16 (REFUSED) for another batch, 15
    (SUPERSEDED) when another open or reset took over: nothing was withheld then.

      tidemark withhold clicks 41
      tidemark withhold clicks 41 --apply --why "rows deleted on request of the user"
    """
    pipeline = find_pipeline(region, pipelines)
    order = order_of(why, apply=apply)
    with spinning("withholding" if apply else "looking at what is not sent"):
        report = withhold_batch(pipeline, connections_of(pipeline), seq, order)
    if output is ResultFormat.json:
        print_json(report)
        return
    for line in _lines(report):
        print_line(line)


def _lines(report: "WithholdReport") -> Iterator[str]:
    done = "withheld" if report.applied else "withhold, dry run"
    yield f"region {report.region}: batch {report.seq}, {done}"
    yield f"  epoch       {report.epoch}"
    yield f"  output      {report.topics.named}, batch {report.sent_seq} was sent last"
    yield f"  never sent  {amount(report.records, 'record')}; the rows stay in the target"
    yield f"  sent then   {amount(report.left, 'batch')} after it"
    if not report.applied:
        yield DRY
