"""What must hold of the tables, whatever happened."""

from tests.support.fake_tables import Tables


def broken_promise(tables: Tables) -> str:
    """The first promise that is broken, in words; nothing if all hold."""
    for promise in (_rows_are_a_prefix, _batches_follow, _plans_tile):
        if text := promise(tables):
            return text
    return ""


def _rows_are_a_prefix(tables: Tables) -> str:
    found = sorted((s.partition, o) for _, s in tables.rows for o in range(s.start, s.end))
    wanted = [(p, o) for p, end in enumerate(tables.offsets) for o in range(end)]
    return "" if found == wanted else f"the target holds {found}, the ledger stands at {wanted}"


def _batches_follow(tables: Tables) -> str:
    seqs = [one.seq for one in tables.published]
    if [one.previous_seq for one in tables.published] != [0, *seqs][: len(seqs)]:
        return f"published without the one before: {tables.published}"
    if tables.head_seq != ([0, *seqs])[-1]:
        return f"the head is {tables.head_seq}, published are {seqs}"
    if len(tables.planned) > 2 or any(one.epoch != tables.epoch for one in tables.planned):
        return f"in epoch {tables.epoch} are unpublished: {tables.planned}"
    return ""


def _plans_tile(tables: Tables) -> str:
    """The first begins where the ledger stands, the next one where that ends."""
    stand = [*tables.offsets]
    for batch in tables.planned:
        for span in batch.spans:
            if span.start != stand[span.partition]:
                return f"{span} does not begin at {stand[span.partition]}"
            stand[span.partition] = span.end
    return ""


def is_done(tables: Tables) -> bool:
    return not tables.planned and tables.run is not None and tables.offsets == tables.run[3]
