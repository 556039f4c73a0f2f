"""What the mirror asks of an output topic, and of the ledger for it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tidemark.model.batch import Checkpoint
from tidemark.model.output import OutputHistory, OutputRecord, Sent, SentSeqs, Topics, Unsent


class Snapshot(Protocol):
    """A look at the ledger and the target: all that it tells was so at one moment."""

    def checkpoint(self, at: int | None) -> Checkpoint:
        """The merged checkpoint of the head, or as of a seq, with the region's epoch."""

    def knows(self, sent: Sent) -> bool:
        """Whether it is a batch of this ledger, published or rewound; or none at all."""

    def newest_up_to(self, seq: int) -> Sent:
        """The newest batch up to a seq, published or rewound."""

    def history(self) -> OutputHistory:
        """What the ledger knows beside the batches."""

    def unsent(self, sent: Sent) -> Sequence[Unsent]:
        """The batches that were published after it and count, in the order of their seqs."""

    def records(self, batch: Unsent) -> Iterator[OutputRecord]:
        """What the batch sends.

        Raises:
            Refused: these are not as many as were published.
        """


class Output(Protocol):
    """A region's output: its topics."""

    @property
    def topics(self) -> Topics:
        """Where rows and dead letters go; one of the two at least."""

    @property
    def sends(self) -> Mapping[str, str]:
        """The settings that say where and how, as a fingerprint has them."""

    @property
    def max_rows(self) -> int:
        """Rows of several batches in one transaction."""

    @property
    def max_seconds(self) -> int:
        """How long one transaction may take."""

    @property
    def start(self) -> str | None:
        """Beginning or end, where the region has published before; None: it was not said."""

    @property
    def resume_after(self) -> int | None:
        """The newest batch in the topic as a person says it."""

    def snapshot(self, region: str) -> AbstractContextManager[Snapshot]:
        """A look at the ledger, for as long as its records are read."""

    def check(self) -> None:
        """It can be sent to.

        Raises:
            InvalidSettings: a topic does not exist.
            Refused: rows can't be encoded, or a registry does not take their schema.
            Unreachable: Kafka or the registry does not answer.
        """

    def sent_seqs(self, region: str) -> SentSeqs:
        """What the ledger knows as sent, and as begun to be sent."""

    def begin_sending(self, region: str, seq: int) -> None:
        """A transaction may send batches up to this one from now on."""

    def newest_seq(self, region: str) -> int | None:
        """The newest batch of the region that the topics' own records name; None: there is none."""

    def raise_next_seq(self, region: str, seq: int) -> None:
        """No batch of the region gets a seq up to this one."""

    def confirm(self, region: str, sent: Sent) -> None:
        """It was read back as sent: the ledger keeps that, and what was kept to send it may go."""
