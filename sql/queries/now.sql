-- Ages are told by the clock that wrote the times.
SELECT clock_timestamp()
