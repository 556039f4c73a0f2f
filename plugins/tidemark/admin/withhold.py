"""Withholding a batch from outside: it is never sent to the output topic."""

from dataclasses import dataclass, replace

from tidemark.admin.errors import NothingToWithhold
from tidemark.ledger.actions import Order
from tidemark.model.output import Topics
from tidemark.protocol.errors import BatchNotNextToSend
from tidemark.protocol.output import begin, find_sent, refuse_other_output
from tidemark.protocol.ports import Output
from tidemark.protocol.reset import WithholdRequest
from tidemark.protocol.withhold import withhold
from tidemark.runs.region import Region, mirror_seen, region_of, topics_gone
from tidemark.runs.retire import retire
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class WithholdReport:
    """What was withheld, or in a dry run (applied false) would be."""

    region: str
    applied: bool
    epoch: int
    topics: Topics
    seq: int
    records: int
    """What it would have sent, as the ledger counted it."""
    sent_seq: int
    """The newest batch that had been sent before."""
    left: int
    """Batches after it that were not sent then."""


def withhold_batch(
    pipeline: Pipeline, connections: Connections, seq: int, order: Order | None
) -> WithholdReport:
    """The batch is never sent, and what follows it is; without an order, what that would mean.

    If it crashes: the batch is withheld, with its audit row, or nothing is.

    Raises:
        Refused: the region has no output, or this is not the lowest batch that is not sent.
        Superseded: another open or reset took over, and nothing was withheld.
    """
    with region_of(pipeline, connections) as region:
        output = region.group.output
        if output is None:
            raise NothingToWithhold(region=region.name)
        report = _dry_run(region, output, seq)
        if order is None:
            return report
        offsets = region.ledger.merged_checkpoint(region.name).offsets
        request = WithholdRequest(
            who=order.who,
            why=order.why,
            seq=seq,
            epoch=report.epoch,
            head_seq=region.state().head_seq,
            mirrored=mirror_seen(region, offsets).mirrored,
            gone=topics_gone(region, offsets),
        )
        settled = withhold(region.ledger, region.group, region.name, request)
        retire(region.ledger.engine, region.name)
        return replace(report, applied=True, epoch=settled.epoch)


def _dry_run(region: Region, output: Output, seq: int) -> WithholdReport:
    epoch = region.state().epoch
    checkpoint = region.ledger.merged_checkpoint(region.name)
    refuse_other_output(checkpoint, output)
    seqs = output.sent_seqs(region.name)
    seen = find_sent(region.name, output, lambda: region.group.sent(checkpoint.offsets), seqs)
    with output.snapshot(region.name) as snapshot:
        sent = begin(region.name, output, snapshot, seen)
        unsent = [one for one in snapshot.unsent(sent) if not one.is_withheld]
    if not unsent or unsent[0].seq != seq:
        raise BatchNotNextToSend(region=region.name, seq=seq, sent_seq=sent.seq)
    return WithholdReport(
        region=region.name,
        applied=False,
        epoch=epoch,
        topics=output.topics,
        seq=seq,
        records=unsent[0].records,
        sent_seq=sent.seq,
        left=len(unsent) - 1,
    )
