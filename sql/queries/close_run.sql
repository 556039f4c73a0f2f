-- The ledger's word on how a run ended.
UPDATE tidemark.runs SET state = %(state)s, reason = %(reason)s, closed_at = clock_timestamp()
WHERE region = %(region)s AND epoch = %(epoch)s AND state IN ('open', 'failed', 'closed')
