-- Kafka reads back equal, and what was to be taken back is: the reset is complete.
UPDATE tidemark.resets SET state = 'finished', finished_at = clock_timestamp(),
    rows_removed = %(rows)s, dead_letters_removed = %(dead_letters)s
WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'started'
