-- A group and a target belong to one region: refused by name before the constraints do it.
SELECT region, group_id, target FROM tidemark.regions
WHERE region <> %(region)s AND (group_id = %(group_id)s OR target = %(target)s)
