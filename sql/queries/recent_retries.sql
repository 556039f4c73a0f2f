-- Drivers that joined a run in place of an earlier one: Airflow's tries of a task have its name.
SELECT count(*) - count(DISTINCT (epoch, regexp_replace(name, ' try [0-9]+$', '')))
FROM tidemark.members
WHERE region = %(region)s AND joined_at > clock_timestamp() - make_interval(secs => %(seconds)s)
