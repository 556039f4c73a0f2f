"""Histories: a partition that lost something ends its history; a new one begins where it can."""

from collections.abc import Mapping

from tidemark.model.facts import Facts
from tidemark.model.offsets import TopicPartition, in_ranges
from tidemark.model.state import Partition
from tidemark.protocol.ports import Settling


def end_lost(
    tx: Settling, epoch: int, known: Mapping[TopicPartition, Partition], facts: Facts
) -> list[str]:
    """End the history of each partition that lost something, begin a new one; name each."""
    is_other_cluster = facts.cluster_id != tx.state.cluster_id
    on: dict[TopicPartition, int] = {}
    ended, remarks = list[TopicPartition](), list[str]()
    for tp, partition in sorted(known.items()):
        is_other_log = is_other_cluster or facts.topic_ids.get(tp.topic) != partition.topic_id
        at = _where_to_go_on(tp, partition, facts, is_other_log=is_other_log)
        # A new history knows no leader epoch yet; the others stay protected (KIP-320).
        if at != partition.next_offset or is_other_log or tp in facts.rewritten:
            ended.append(tp)
            on |= {} if at is None else {tp: at}
            where = "is gone" if at is None else f"goes on at {at}"
            where = f"was rewritten and {where}" if tp in facts.rewritten else where
            remarks.append(f"accepted: {tp} {where}, the ledger stood at {partition.next_offset}")
    tx.end_histories(epoch, ended)
    tx.write_initial_offsets(on, facts.topic_ids)
    return remarks


def end_left(tx: Settling, epoch: int, facts: Facts) -> list[str]:
    """End the histories of topics that the pipeline left and Kafka lost; name them."""
    ended = [tp for tp in tx.partitions() if tp.topic in facts.gone]
    if not ended:
        return []
    tx.end_histories(epoch, ended)
    return [f"no longer read, and gone from Kafka: {in_ranges(ended)}"]


def _where_to_go_on(
    tp: TopicPartition, partition: Partition, facts: Facts, *, is_other_log: bool
) -> int | None:
    """The next offset that Kafka can give; None where the partition is gone."""
    if tp not in facts.ends:
        return None
    start, end = facts.log_starts[tp], facts.ends[tp]
    return start if is_other_log else min(max(partition.next_offset, start), end)
