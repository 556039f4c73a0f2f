"""Staging tables and the target table: how rows reach Postgres."""
