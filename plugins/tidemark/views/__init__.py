"""What is read of regions: where they stand, who works, metrics, lineage. Nothing is decided."""
