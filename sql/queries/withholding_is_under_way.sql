-- A withholding of the region's own epoch that has read what was sent and not written the batch, or died in between.
SELECT EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started' AND 'withhold' = ANY (s.overrides))
