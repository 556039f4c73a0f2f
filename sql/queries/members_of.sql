-- The members that have joined under an epoch.
SELECT member FROM tidemark.members WHERE region = %(region)s AND epoch = %(epoch)s
