-- Targets of which nothing is published, and that the pipeline no longer names.
DELETE FROM tidemark.targets WHERE region = %(region)s AND target <> ALL (%(targets)s)
