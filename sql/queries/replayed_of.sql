-- Records of these batches whose rows a later batch brought.
SELECT topic, partition, "offset" FROM tidemark.dead_letters
WHERE region = %(region)s AND seq BETWEEN %(first)s AND %(last)s AND replayed_seq IS NOT NULL
