"""What a person does about each error, in a sentence; docs/operating.md has the whole of it."""

REMEDIES = {
    "UNREACHABLE": "The text names the connection with its host and port: check that it answers,"
    " and the login. Nothing half-done is visible.",
    "STAGING_LOST": "Nothing: a retry, or the next run, drains the records again.",
    "NO_PROGRESS": "The log names the spans and who holds them: stop a foreign consumer, or look"
    " at the job of the member that is stuck.",
    "RUN_NOT_DONE": "Read the log of the drain task: it says why. The next run goes on from the"
    " ledger; nothing is lost or doubled.",
    "OUTCOME_UNKNOWN": "Nothing: a retry finds what was committed.",
    "COMMIT_REFUSED": "Nothing of it was kept. If it happens again, read Postgres' log.",
    "MIRROR_FAILED": "Find who else commits in this group, and stop it. The rows are safe.",
    "JOB_FAILED": "Look at Spark's log and its master. Nothing of the batch is visible.",
    "NOT_STARTED": "Read the log that the text names.",
    "INVALID_SETTINGS": "Correct the file, the connection or the topic that the text names.",
    "FENCED": "Nothing, if the newer run or the reset was meant.",
    "TARGET_REFUSED": "Correct the rows in the transform, or change the table; until then every run"
    " stops at this batch.",
    "INCOMPLETE_READ": "Take limit(), first() and always-false filters out of the transform;"
    " `tidemark check` finds them.",
    "DATA_LOST": "A person decides: the log names the ranges that Kafka no longer holds. To go on"
    " without them, start a run with Accept data loss.",
    "SCHEMA_MISMATCH": "The log lists every difference, and the ALTER TABLE that mends it. Nothing"
    " was written.",
    "SUPERSEDED": "Nothing: another open or reset came first.",
    "REFUSED": "The text says what would allow it.",
    "LEDGER_INCONSISTENT": "Run `tidemark verify`; restore ledger and target from one backup.",
    "CLAIMS_LOST": "Nothing: the next run drains the records again.",
    "CORRUPT_RECORD": "Restore the records, or leave out exactly the offsets that the log names by"
    " Accept corrupt records.",
    "TRANSFORM_FAILED": "Correct the transform: the log has the exception with file and line.",
    "TOO_MANY_DEAD_LETTERS": "Look at the reasons below: correct the producer or decode, or raise"
    " dead_letters in the pipeline file.",
    "OUTPUT_TOO_LARGE": "Lower batch.max_records, or raise the broker's limits for transactions.",
}
