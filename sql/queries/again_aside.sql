-- Records of a batch that a replay has made rows of.
SELECT topic, partition, "offset" FROM tidemark.dead_letters
WHERE region = %(region)s AND seq = %(seq)s AND replayed_seq IS NOT NULL
