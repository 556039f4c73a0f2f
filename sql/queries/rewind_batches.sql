-- What is taken back stays in the ledger as a fact, and under no checkpoint.
UPDATE tidemark.batches SET state = 'rewound'
WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'
