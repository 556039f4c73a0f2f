-- Did the open whose COMMIT had no answer happen?
SELECT epoch FROM tidemark.runs WHERE opening = %(uuid)s
