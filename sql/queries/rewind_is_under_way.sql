-- A rewind of the region's own epoch that has lowered Kafka and not yet the ledger, or died in between.
SELECT EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started' AND s.to_seq < s.from_seq)
