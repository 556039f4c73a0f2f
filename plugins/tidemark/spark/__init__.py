"""The job of a batch: its source, the transform, and the writer into staging.

Doors: archive, cluster, dead_letter_records, errors, executor, java_options, reader,
record_decoder, record_keys, records, sample, session, source, specs, transform.

Its tasks write the batch's staging tables and nothing else, and decide nothing.
"""
