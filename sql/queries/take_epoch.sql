-- Fence everyone who holds an older epoch.
SELECT tidemark.take_epoch(%(region)s, %(epoch)s, %(seen)s)
