"""Withholding a batch: it is published, and never sent to the output topic. Only a person wants it.

  1 settle      epoch+1, then a mirror that sends nothing: whoever could still send is fenced, in
                the ledger and in Kafka, and what was sent is read back
  2 withhold    one transaction under the same epoch: the lowest batch that is not sent, and who
                wanted it, and why
  3 mirror      sends what follows
With neither fence another writer might send the batch after it was seen as unsent.

If it crashes: before the COMMIT of 2 nothing is withheld; after it every mirror passes the batch.
"""

from tidemark import failpoints
from tidemark.errors import Fenced, OutcomeUnknown, Refused, Superseded, Unreachable
from tidemark.model.offsets import without
from tidemark.protocol.mirror import mirror
from tidemark.protocol.ports import Deciding, Group, Ledger
from tidemark.protocol.removal import Removal
from tidemark.protocol.settle import Settled, settle
from tidemark.protocol.withhold_request import WithholdRequest


def withhold(
    ledger: Ledger[Deciding], group: Group, region: str, request: WithholdRequest
) -> Settled:
    """The batch is withheld, and what follows it is sent.

    Raises:
        Refused: it is not the lowest batch that is not sent; or a batch after it can't be sent,
            and the text says which: this one is withheld then.
        Superseded: another open or reset came before 2; nothing was withheld.
    """
    try:
        settled = settle(ledger, group, region, request)
        _withhold(ledger, group, region, settled.epoch, request)
    except Fenced as error:
        raise Superseded(
            f"region {region}: another open or reset took over, and nothing was withheld. Do it"
            " again if it is still wanted"
        ) from error
    except OutcomeUnknown as error:
        if ledger.reset_state(request.uuid, region) != "finished":
            raise Unreachable(f"region {region}: {error}; it did not happen, try again") from error
    failpoints.hit("withhold.done")
    mirror(ledger, group, region, settled.epoch, gone=request.gone)
    return settled


def _withhold(
    ledger: Ledger[Deciding], group: Group, region: str, epoch: int, request: WithholdRequest
) -> None:
    offsets = without(request.gone, ledger.merged_checkpoint(region).offsets)
    marks = group.sent(offsets)
    if len(marks) != 1:
        raise Refused(f"region {region}: Kafka does not tell what was sent. Nothing was withheld")
    [sent] = marks
    with ledger.deciding(region, epoch, "withhold") as tx:
        is_withheld = tx.withhold(request.seq, sent.seq, request)
        if is_withheld:
            tx.finish_reset(Removal({}, 0))
        else:
            tx.abandon_reset()
    if not is_withheld:
        raise not_the_lowest(region, request.seq, sent.seq)


def not_the_lowest(region: str, seq: int, sent_seq: int) -> Refused:
    """The error for a batch that is sent, rewound, or has others before it."""
    return Refused(
        f"region {region}: batch {seq} is not the lowest one that is published and not sent: batch"
        f" {sent_seq} was sent last. Nothing was withheld. `tidemark status {region}` shows what is"
        " not sent"
    )
