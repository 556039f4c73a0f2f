-- Whether nobody is at work under the region's epoch, and no run has failed there: neither its own, nor one before it
-- that the epoch was taken to clean up after. What a person does takes an epoch without a run.
SELECT NOT EXISTS (SELECT FROM tidemark.runs n JOIN tidemark.regions r USING (region, epoch)
                   WHERE n.region = %(region)s AND n.state <> 'closed')
   AND NOT EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
                   WHERE s.region = %(region)s AND (s.state = 'started' OR s.run_id IS NOT NULL))
   AND NOT EXISTS (SELECT FROM tidemark.batches b WHERE b.region = %(region)s AND b.state = 'planned')
