-- The first publish keeps what texts the values of a key have; from then on a column of it has no others.
UPDATE tidemark.targets t SET key_forms = %(forms)s
WHERE t.region = %(region)s AND t.target = %(target)s AND NOT EXISTS (
    SELECT FROM jsonb_each(t.key_forms) AS known JOIN jsonb_each(%(forms)s) AS found USING (key)
    WHERE known.value <> found.value)
