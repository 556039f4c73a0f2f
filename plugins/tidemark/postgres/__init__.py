"""One Postgres server: its sessions, its transactions, and what its errors mean.

Doors: errors, fate, parameters, session, transaction.

It knows neither the ledger nor a target, and takes no error by its text.
"""
