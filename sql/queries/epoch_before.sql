-- The epoch that an open finds: the region's, or the last one of a region of this name that is gone.
SELECT coalesce((SELECT epoch FROM tidemark.regions WHERE region = %(region)s),
                (SELECT max((a.details->>'epoch')::bigint) FROM tidemark.actions a
                 WHERE a.region = %(region)s AND a.kind IN ('drop', 'rename')), 0)
