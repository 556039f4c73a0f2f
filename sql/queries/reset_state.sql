-- What became of a rewind whose COMMIT had no answer.
SELECT state FROM tidemark.resets WHERE resetting = %(uuid)s
