"""What is read of regions: where they stand, who works, metrics, lineage.

Doors: completeness, group_health, lineage, metrics, status, verdict.

It takes no lock and writes nothing, and no decision uses it.
"""
