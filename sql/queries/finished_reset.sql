-- A reset that this request has finished. One that died, or was superseded, may be asked for again.
SELECT epoch, from_seq, to_seq, rows_removed, finished_at FROM tidemark.resets
WHERE region = %(region)s AND request_id = %(request_id)s AND state = 'finished' ORDER BY epoch DESC LIMIT 1
