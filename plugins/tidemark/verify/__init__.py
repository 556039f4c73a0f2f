"""Verify: prove the target and the ledger against what Kafka still holds."""
