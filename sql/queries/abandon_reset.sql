-- The reset of this epoch changes nothing more: what was published stays.
UPDATE tidemark.resets SET state = 'superseded', finished_at = clock_timestamp()
WHERE region = %(region)s AND epoch = %(epoch)s AND state = 'started'
