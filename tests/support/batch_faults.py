"""Faults of one batch among several, or between two, as SQL, and how `verify` names them.

For the region of tests/integration/verify/test_verify_groups.py. Where a count would tell the fault
as well, the ledger's is changed with it, unless the fault is that they differ.
"""

from tidemark.verify.report import Kind

FEWER = "UPDATE tidemark.batch_targets SET rows_moved = rows_moved - 1, rows_contributed ="
FEWER += " rows_contributed - 1 WHERE seq = 4;"
FEWER += FEWER.replace("batch_targets", "batches")
MORE = FEWER.replace("- 1", "+ 1")
ONE = "batch_seq = 4 AND kafka_partition = 0 AND value LIKE '%0'"
DEAD_LETTER = "seq = 4 AND refused_rows IS NULL"
ASIDE = "seq = 4 AND refused_rows IS NOT NULL"
BATCH_COUNTS = """
UPDATE tidemark.spans SET records = records + CASE seq WHEN 4 THEN 1 ELSE -1 END
WHERE seq IN (4, 5) AND partition = 1;
UPDATE tidemark.batches SET records = records + CASE seq WHEN 4 THEN 1 ELSE -1 END
WHERE seq IN (4, 5)
"""
SPAN_COUNTS = """
UPDATE tidemark.spans SET {0} = {0} + CASE WHEN (seq + partition) % 2 = 0 THEN 1 ELSE -1 END
WHERE seq IN (4, 5)
"""

ROW, DEAD, HELD, LEDGER = "row", "dead letter", "refused record", "ledger"
SWAP = "UPDATE public.records SET batch_seq = 9 - batch_seq WHERE batch_seq IN (4, 5)"
MOVED = {(seq, kind) for seq in (4, 5) for kind in (Kind.lost, Kind.foreign)}
MISCOUNTED = {(seq, Kind.miscounted, LEDGER) for seq in (4, 5)}
FAULTS: dict[str, tuple[str, set[tuple[int, Kind, str]]]] = {
    "lost": (f"DELETE FROM public.records WHERE {ONE}",
             {(4, Kind.lost, ROW), (4, Kind.miscounted, LEDGER)}),
    "lost and not counted": (f"{FEWER} DELETE FROM public.records WHERE {ONE}",
                             {(4, Kind.lost, ROW)}),
    "altered": (f"UPDATE public.records SET value = value || ' ' WHERE {ONE}",
                {(4, Kind.altered, ROW)}),
    "doubled": (f"{MORE} INSERT INTO public.records SELECT * FROM public.records WHERE {ONE}",
                {(4, Kind.doubled, ROW)}),
    "foreign": (f"{MORE} INSERT INTO public.records VALUES ('x', 'elsewhere', 7, 1, 4)",
                {(4, Kind.foreign, ROW)}),
    "in another batch": (f"{SWAP} AND value LIKE '%0' AND kafka_partition = 0",
                         {(*place, ROW) for place in MOVED}),
    "letter altered": (f"UPDATE tidemark.dead_letters SET value = 'baD' WHERE {DEAD_LETTER}",
                       {(4, Kind.altered, DEAD)}),
    "letter lost": (f"DELETE FROM tidemark.dead_letters WHERE {DEAD_LETTER}",
                    {(4, Kind.lost, DEAD)}),
    "letter in another batch": (
        "UPDATE tidemark.dead_letters SET seq = 9 - seq"
        " WHERE seq IN (4, 5) AND refused_rows IS NULL",
        {(*place, DEAD) for place in MOVED}),
    "refused altered": (
        f"UPDATE tidemark.dead_letters SET refused_rows = refused_rows || '[1]' WHERE {ASIDE}",
        {(4, Kind.altered, HELD)}),
    "refused in another batch": (
        "UPDATE tidemark.dead_letters SET seq = 9 - seq"
        " WHERE seq IN (4, 5) AND refused_rows IS NOT NULL",
        {(seq, kind, what) for seq in (4, 5)
         for kind, what in ((Kind.foreign, HELD), (Kind.lost, ROW))}),
    "records counted in another batch": (BATCH_COUNTS, MISCOUNTED),
    "records counted in another span": (SPAN_COUNTS.format("records"), MISCOUNTED),
    "letters counted in another span": (SPAN_COUNTS.format("dead_letters"), MISCOUNTED),
}  # fmt: skip
