"""What the task of a reset tells in a sentence: a dry run is as green as a rewind."""

from dataclasses import replace

import pytest

from tidemark.admin.reset import Removed, ResetReport

TABLE = "public.clicks"
DRY = ResetReport("clicks", False, 4, 25, 20, (), {}, (), Removed(5, 12_490, 0, {}, {}))
RESET = replace(DRY, to_seq=25, removed=None)


@pytest.mark.parametrize(
    ("report", "gone"),
    [
        (DRY, "12,490 rows of public.clicks (batches 21-25)"),
        (replace(DRY, to_seq=24, removed=Removed(1, 1, 2, {}, {})),
         "1 row of public.clicks and 2 dead letters (batch 25)"),
        (replace(DRY, to_seq=25, removed=Removed(0, 0, 0, {}, {})), "no row of public.clicks"),
        (RESET, "no row of public.clicks"),
    ],
)  # fmt: skip
def test_a_dry_run_tells_what_a_reset_would_remove(report: ResetReport, gone: str) -> None:
    from tidemark.airflow.results import reset_summary

    told = reset_summary(TABLE, report)
    assert told == f"Dry run: would remove {gone}. Nothing was changed."
    assert reset_summary(TABLE, replace(report, applied=True)) == f"Removed {gone}."


def test_an_unpublished_batch_is_named() -> None:
    from tidemark.airflow.results import reset_summary

    report = replace(RESET, discarded_seqs=(26,))
    assert "; discard batch 26, unpublished." in reset_summary(TABLE, report)


def test_the_result_of_the_task_begins_with_the_sentence() -> None:
    from tidemark.airflow.results import of_reset, reset_summary

    result = of_reset(TABLE, DRY)
    assert next(iter(result.items())) == ("summary", reset_summary(TABLE, DRY))
    assert result["removed"]["rows"] == 12_490
