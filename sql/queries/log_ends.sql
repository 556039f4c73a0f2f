-- Where the logs ended when the newest run opened.
SELECT topic, partition, target_offset, high_watermark, stable_since FROM tidemark.run_targets
WHERE region = %(region)s
  AND epoch = (SELECT max(n.epoch) FROM tidemark.runs n WHERE n.region = %(region)s)
