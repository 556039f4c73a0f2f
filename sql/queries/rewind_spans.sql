-- Rewound spans no longer stand in the way of reading them again.
UPDATE tidemark.spans SET live = false WHERE region = %(region)s AND seq > %(seq)s AND live
