"""Skip a published batch on the output topic. Only a person starts this.

  1 settle      epoch+1, then a mirror that sends nothing: whoever could still send is fenced, in
                the ledger and in Kafka, and what was sent is read back
  2 withhold    one transaction under the same epoch: the lowest batch that is not sent, and who
                wanted it, and why
  3 mirror      sends what follows
With neither fence another writer might send the batch after it was seen as unsent.

If it crashes: before the COMMIT of 2 nothing is withheld; after it every mirror passes the batch.
"""

from tidemark import failpoints
from tidemark.model.batch import Removal
from tidemark.model.offsets import without
from tidemark.protocol.errors import (
    BatchNotNextToSend,
    WithholdSentUnknown,
)
from tidemark.protocol.mirror import mirror
from tidemark.protocol.ports import Group, Ledger
from tidemark.protocol.reset import WithholdRequest
from tidemark.protocol.settle import Settled, finishing, settle


def withhold(ledger: Ledger, group: Group, region: str, request: WithholdRequest) -> Settled:
    """The batch is withheld, and what follows it is sent.

    Raises:
        Refused: it is not the lowest batch that is not sent; or a batch after it can't be sent,
            and the text says which: this one is withheld then.
        Superseded: another open or reset came before 2; nothing was withheld.
    """
    with finishing(ledger, region, request, "withheld"):
        settled = settle(ledger, group, region, request)
        _withhold(ledger, group, region, settled.epoch, request)
    failpoints.hit("withhold.done")
    mirror(ledger, group, region, settled.epoch, gone=request.gone)
    return settled


def _withhold(
    ledger: Ledger, group: Group, region: str, epoch: int, request: WithholdRequest
) -> None:
    offsets = without(request.gone, ledger.merged_checkpoint(region).offsets)
    marks = group.sent(offsets)
    if len(marks) != 1:
        raise WithholdSentUnknown(region=region)
    [sent] = marks
    with ledger.deciding(region, epoch, "withhold") as tx:
        is_withheld = tx.withhold(request.seq, sent.seq, request.who, request.why)
        if is_withheld:
            tx.finish_reset(Removal({}, 0))
        else:
            tx.abandon_reset()
    if not is_withheld:
        raise BatchNotNextToSend(region=region, seq=request.seq, sent_seq=sent.seq)
