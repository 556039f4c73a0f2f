-- What was read back as sent, or rewound before it was, is never sent again.
DELETE FROM tidemark.outbox WHERE region = %(region)s AND seq <= %(seq)s
