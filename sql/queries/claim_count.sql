-- So many more of the batch's spans are claimed.
UPDATE tidemark.batches SET claimed = claimed + %(claimed)s WHERE region = %(region)s AND seq = %(seq)s
