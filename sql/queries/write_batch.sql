-- A planned batch.
INSERT INTO tidemark.batches (region, seq, epoch) VALUES (%(region)s, %(seq)s, %(epoch)s)
