-- Where a run stops.
SELECT topic, partition, target_offset FROM tidemark.run_targets
WHERE region = %(region)s AND epoch = %(epoch)s ORDER BY topic, partition
