-- Where the logs ended when the newest runs opened, open transactions included.
SELECT t.epoch, t.topic, t.partition, t.high_watermark
FROM tidemark.run_targets t WHERE t.region = %(region)s AND t.epoch >= %(epoch)s ORDER BY t.epoch
