"""Remarks: what an open finds that does not stop it, and that a person should know."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Mirrored, RegionState


def restored(state: RegionState, seen: Mirrored) -> Iterator[str]:
    """A ledger that is older than its mirror in Kafka."""
    if seen.epoch > state.epoch or seen.seq > state.head_seq:
        yield (
            f"the ledger is older than its mirror: it is at epoch {state.epoch}, batch"
            f" {state.head_seq}, Kafka's offsets are of epoch {seen.epoch}, batch {seen.seq}."
            " Was Postgres restored from a backup, or was another region dropped that had this"
            " group? The run goes on from the ledger"
        )


def taken_before(initial: Offsets) -> Iterator[str]:
    """Each new partition of which retention has taken something before its first read."""
    for tp, offset in sorted(initial.items()):
        if offset:
            yield (
                f"{Span(*tp, 0, offset)}: retention took it before anybody read it. The partition"
                f" is new to the region and begins at {offset}"
            )


def hanging(facts: Facts, stuck: Mapping[TopicPartition, datetime]) -> Iterator[str]:
    """Each partition that an open transaction has held since an earlier open."""
    for tp, since in sorted(stuck.items()):
        end = facts.ends[tp]
        where = f"--topic {tp.topic} --partition {tp.partition}"
        yield (
            f"{tp}: a transaction has been open at offset {end} since"
            f" {since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC or longer; until it ends, nobody"
            f" can read the {facts.high_watermarks[tp] - end} offsets from there. If its"
            " producer hangs, end it: kafka-transactions.sh --bootstrap-server HOST:PORT"
            f" describe-producers {where} names it, abort {where} --start-offset {end} ends it"
            " (the client library can't ask for it)"
        )
