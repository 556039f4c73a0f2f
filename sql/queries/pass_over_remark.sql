-- What was found while the run was at work.
UPDATE tidemark.runs SET remarks = remarks || %(remark)s::text WHERE region = %(region)s AND epoch = %(epoch)s
