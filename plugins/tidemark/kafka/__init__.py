"""Kafka: facts of topics, membership, the mirror's writer, and the reading of spans.

Doors: admin, config, description, errors, facts, group, headers, locate, member,
output_topic, retention, spans, timestamps.

It decides nothing: what is read, and what is committed, is given to it.
"""
