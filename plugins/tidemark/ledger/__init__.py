"""The ledger: the Postgres tables that are the source of truth.

Doors: actions, deciding, errors, history, kept_dead_letters, ledger, migrate, naming, queries,
reader, regions, rewinds, sending, settling, timeline.

A deciding transaction holds the region's lock, compares the epoch and asks Kafka nothing. Reads
without the lock decide nothing.
"""
