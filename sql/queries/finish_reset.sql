-- Kafka reads back equal: the reset is complete.
UPDATE tidemark.resets SET state = 'finished', finished_at = clock_timestamp()
WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'started'
