-- A reset of the run that took its epoch and died before Kafka read back equal. A newer settle supersedes it.
SELECT epoch FROM tidemark.resets
WHERE region = %(region)s AND run_id = %(run_id)s AND state = 'started' ORDER BY epoch DESC LIMIT 1
