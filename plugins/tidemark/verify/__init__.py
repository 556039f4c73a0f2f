"""Verify: prove a region, or audit the table of another tool, against what Kafka still holds.

Doors: audit, report, verify.

It writes scratch tables alone, and drops them; an audit writes nothing.
"""
