DELETE FROM tidemark.dead_letters WHERE region = %(region)s AND seq > %(seq)s
