-- A rewind that died half-way, or was overtaken, changes nothing more.
UPDATE tidemark.resets SET state = 'superseded', finished_at = clock_timestamp()
WHERE region = %(region)s AND state = 'started'
