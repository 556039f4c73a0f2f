-- Back at the initial state no row is left, also none of those that the ledger has forgotten.
UPDATE tidemark.targets SET pruned_rows = 0 WHERE region = %(region)s AND %(seq)s = 0
