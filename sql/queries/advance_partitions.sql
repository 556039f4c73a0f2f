-- Compare-and-set of every partition; raises on the server.
SELECT tidemark.advance_partitions(%(region)s, %(seq)s)
