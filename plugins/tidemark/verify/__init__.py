"""Verify: prove the target and the ledger against what Kafka still holds.

Doors: report, verify.

It writes scratch tables alone, and drops them.
"""
