-- A second region with the same group id is refused by name before the constraint does it.
SELECT region FROM tidemark.regions WHERE group_id = %(group_id)s
