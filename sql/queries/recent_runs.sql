-- How many runs opened lately, by state.
SELECT state, count(*) FROM tidemark.runs
WHERE region = %(region)s AND opened_at > clock_timestamp() - make_interval(secs => %(seconds)s)
GROUP BY state
