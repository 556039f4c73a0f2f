-- Whether a run, a reset or a rewind is at work under the region's epoch, or died there.
SELECT EXISTS (SELECT FROM tidemark.runs n JOIN tidemark.regions r USING (region, epoch)
               WHERE n.region = %(region)s AND n.state = 'open')
    OR EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started')
    OR EXISTS (SELECT FROM tidemark.batches b WHERE b.region = %(region)s AND b.state = 'planned')
