-- What a member found that does not stop its run; said once, whoever finds it.
UPDATE tidemark.runs
SET remarks = remarks || ARRAY(
    SELECT DISTINCT found FROM unnest(%(remarks)s::text[]) AS found WHERE found <> ALL (remarks)
)
WHERE region = %(region)s AND epoch = %(epoch)s
