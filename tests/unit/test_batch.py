from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, PlannedSpan, SpanRead, Staging
from tidemark.model.offsets import Span

SPANS = (Span("t", 0, 0, 5), Span("t", 1, 2, 4))


def test_a_batch_has_staging_tables_of_its_own() -> None:
    batch = Batch("flights", 3, 12, ())
    assert batch.staging == Staging(
        "tidemark_staging", "flights_12_rows", "flights_12_dead_letters", "flights_12_reads"
    )


def test_staging_of_two_batches_never_shares_a_table() -> None:
    one, other = Staging.of("flights", 1), Staging.of("flights", 11)
    assert not {one.rows, one.dead_letters, one.reads} & {other.rows, other.dead_letters}


def test_the_names_of_staging_tables_fit_postgres() -> None:
    """A longer one would be cut, and two batches could share a table."""
    staging = Staging.of("r" * 40, 999_999_999)
    assert all(len(name) <= 63 for name in (staging.rows, staging.dead_letters, staging.reads))


def test_unclaimed_spans_are_what_nobody_contributed() -> None:
    planned = (PlannedSpan(SPANS[0], "id", claimed=True), PlannedSpan(SPANS[1], "id"))
    assert Batch("r", 1, 1, planned).unclaimed == (planned[1],)


def test_a_contribution_counts_its_winners_rows_and_its_reads_dead_letters() -> None:
    reads = (SpanRead(SPANS[0], 1, 0, 5, 2), SpanRead(SPANS[1], 1, 1, 2, 1))
    contribution = Contribution(1, reads, (Attempt(1, 0, {ONLY: 3}), Attempt(1, 7, {ONLY: 1})))
    assert (contribution.rows, contribution.dead_letters) == ({ONLY: 4}, 3)
