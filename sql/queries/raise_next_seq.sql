-- Seqs that an output topic names already are never given out, also by a ledger from before them.
UPDATE tidemark.regions SET next_seq = %(seq)s + 1 WHERE region = %(region)s AND next_seq <= %(seq)s
