"""The worked examples of dags/: their records, their runs with killed drivers, and their proofs."""
