-- Dead letters are read again with their batches.
DELETE FROM tidemark.dead_letters WHERE region = %(region)s AND seq > %(seq)s
