-- Before a Kafka transaction that sends batches: if nobody hears how it ends, the topic's own records have to tell.
UPDATE tidemark.regions SET sending_seq = %(seq)s WHERE region = %(region)s AND sending_seq < %(seq)s
