"""A run: its open, the loop of each member from plan to mirror, and what they work with.

Doors: errors, fit, job, member, open, outage, refusals, region, retire, schemas, targets.

It knows neither Airflow nor the command line. Who works is the group's choice, what counts is the
ledger's.
"""
