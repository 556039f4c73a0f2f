-- The newest epoch of an Airflow run: clearing a task opens again under the same run id.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s AND run_id = %(run_id)s ORDER BY epoch DESC LIMIT 1
