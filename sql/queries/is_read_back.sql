-- Whether Kafka's offsets were read back as the ledger stands: by the close of the epoch's run, or by its reset. A
-- region without partitions has none.
SELECT EXISTS (SELECT FROM tidemark.runs n JOIN tidemark.regions r USING (region, epoch)
               WHERE n.region = %(region)s AND n.state = 'closed')
    OR EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'finished')
    OR NOT EXISTS (SELECT FROM tidemark.partitions p WHERE p.region = %(region)s)
