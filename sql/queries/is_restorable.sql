-- Whether a checkpoint is still published and retained.
SELECT EXISTS (SELECT FROM tidemark.batches b JOIN tidemark.regions r USING (region)
               WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'
                 AND b.seq >= r.oldest_seq)
