-- Contributions without spans tell nothing more.
DELETE FROM tidemark.contributions c
WHERE c.region = %(region)s AND c.seq < %(oldest)s
  AND NOT EXISTS (SELECT FROM tidemark.spans s WHERE s.region = %(region)s AND s.seq < %(oldest)s
                  AND s.contribution = c.contribution)
