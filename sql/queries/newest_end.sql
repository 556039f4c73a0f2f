-- When the newest run or reset that is over ended: its mirror was in the group then.
SELECT greatest((SELECT max(n.closed_at) FROM tidemark.runs n WHERE n.region = %(region)s),
                (SELECT max(s.finished_at) FROM tidemark.resets s WHERE s.region = %(region)s))
