"""The ledger: the Postgres tables that are the source of truth.

Doors: actions, deciding, errors, history, kept_dead_letters, ledger, migrate, periods, queries,
reader, regions, removing, rewinds, sending, settling, starts, timeline.

A deciding transaction holds the region's lock, compares the epoch and asks Kafka nothing. Reads
without the lock decide nothing.
"""
