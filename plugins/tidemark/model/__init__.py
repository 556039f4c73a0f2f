"""Values: what the others speak of. Offsets, spans, batches, plans, facts of Kafka.

Doors: batch, corruption, dead_letters, deletions, errors, facts, incomplete_read, membership,
offsets, output, overrides, periods, plain, plan, state, table_name, upsert.

It knows no library, does no I/O and asks no clock.
"""
