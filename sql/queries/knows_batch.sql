-- Whether the batch that was sent is one of this ledger: what is rewound stays sent.
SELECT EXISTS (SELECT FROM tidemark.batches b
               WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.uuid = %(uuid)s AND b.state <> 'planned')
