-- A restored ledger gives out no seq that the lost one has published.
UPDATE tidemark.regions SET next_seq = greatest(next_seq, %(seen)s + 1) WHERE region = %(region)s
