-- The run plans no further batch.
UPDATE tidemark.runs SET bound = %(bound)s WHERE region = %(region)s AND epoch = %(epoch)s
