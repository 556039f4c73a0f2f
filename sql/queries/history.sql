-- What the ledger knows of a region's output beside its batches.
SELECT r.oldest_seq, r.sent_seq, r.sending_seq, r.head_seq FROM tidemark.regions r WHERE r.region = %(region)s
