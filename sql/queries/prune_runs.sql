-- As many runs as checkpoints are kept, and every run of a kept checkpoint or a newer one. A run that was given
-- overrides is kept for ever: cleared, it must not have them again.
DELETE FROM tidemark.runs WHERE region = %(region)s AND epoch IN (
    SELECT r.epoch FROM tidemark.runs r
    WHERE r.region = %(region)s AND r.state <> 'open' AND r.overrides = '{}'
      AND r.epoch <= (SELECT n.epoch - %(retain)s FROM tidemark.regions n WHERE n.region = %(region)s)
      AND NOT EXISTS (SELECT FROM tidemark.batches b
                      WHERE b.region = r.region AND b.epoch = r.epoch AND b.seq >= %(oldest)s)
    ORDER BY r.epoch LIMIT %(step)s)
