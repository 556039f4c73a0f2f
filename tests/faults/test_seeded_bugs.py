"""Each guard is taken out once, and the fault that it guards against is noticed.

The same faults beside all guards stand in test_faults.py, or here before the seeded one. What is
found is judged by the test's own process, in which no guard is missing.
"""

import signal
from collections.abc import Callable

import pytest
from tests.faults import seeded
from tests.faults.broken import Broken
from tests.faults.region import FaultRegion
from tests.faults.seeded import Seed
from tests.support.processes import resume

from tidemark.errors import Fenced, StagingLost
from tidemark.postgres.errors import CommitRolledBack, PartitionStandsElsewhere
from tidemark_local.postgres import Postgres

Found = Callable[[Seed, str], None]
Planted = Callable[[Seed], Seed]


@pytest.fixture
def planted(region: FaultRegion) -> Planted:
    """Takes the guard out of the region's ledger, if it stands there; a process does the rest."""
    return lambda seed: seed.planted(region)


def test_a_seed_in_what_is_gone_is_no_seed() -> None:
    nowhere = FaultRegion("", {}, "", "")
    gone = Broken.start(nowhere, "run", seed=Seed("of nothing", seeded.in_what_is_gone))
    with pytest.raises(AssertionError, match="a_method_that_nobody_has"):
        gone.end()
    with pytest.raises(AttributeError):
        seeded.without("WHERE true", "AND false")


@pytest.mark.long
def test_a_zombie_without_a_fence_is_not_told_that_it_is_one(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    zombie = Broken.start(region, "run", "publish.before=stop@2", planted(seeded.NO_FENCE))
    stopped = zombie.wait_until_stopped()
    region.reset()
    resume(stopped)
    code, words = zombie.end()
    assert code != Fenced.exit_code
    assert "contributions_region_seq_fkey" in words  # what still keeps it from doing harm
    found(seeded.NO_FENCE, f"exit code {code}, so a retry, instead of {Fenced.exit_code}")


def test_a_zombie_without_any_fence_publishes_after_a_reset(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    seed = planted(seeded.NO_FENCE_AT_ALL)
    zombie = Broken.start(region, "run", "publish.before=stop@2", seed)
    stopped = zombie.wait_until_stopped()
    ended(region, "reset", seed)
    visible = len(region.rows())
    resume(stopped)
    zombie.end()
    late = len(region.rows()) - visible
    assert late > 0
    assert region.drift()
    found(seeded.NO_FENCE_AT_ALL, f"{late} rows after the reset; {region.drift()[0]}")


@pytest.mark.long
def test_a_plan_that_skips_an_offset_is_refused(region: FaultRegion, planted: Planted) -> None:
    code, words = Broken.start(region, "run", seed=planted(seeded.SKIPPING_PLAN)).end()
    assert code == Fenced.exit_code, words
    assert PartitionStandsElsewhere.__name__ in words


def test_without_the_compare_and_set_a_skipped_offset_is_lost(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    ended(region, "run", planted(seeded.NO_SPAN_CAS))
    faults = region.faults_found()
    assert any("lost" in fault for fault in faults)
    assert any("gap before" in fault for fault in faults)
    found(seeded.NO_SPAN_CAS, "; ".join(faults[:2]))


def test_without_the_count_check_emptied_staging_is_published(
    region: FaultRegion, breakable: Postgres, planted: Planted, found: Found
) -> None:
    broken = Broken.start(region, "run", "drain.staged=stop@2", planted(seeded.NO_COUNT_CHECK))
    stopped = broken.wait_until_stopped()
    breakable.stop("immediate")
    breakable.start()
    resume(stopped)
    code, words = broken.end()
    assert code == 0, words
    found(seeded.NO_COUNT_CHECK, first_fault(region, "rows lost"))


@pytest.mark.long
def test_a_mirror_before_the_publish_leaves_kafka_ahead(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    killed_in_publish(region, None)
    assert region.drift() == []
    killed_in_publish(region, planted(seeded.MIRROR_BEFORE_PUBLISH))
    [fault, *_] = region.drift()
    found(seeded.MIRROR_BEFORE_PUBLISH, fault)


@pytest.mark.long
def test_an_unfenced_mirror_takes_kafka_back(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    zombie = Broken.start(region, "run", "mirror.read=stop@2", planted(seeded.UNFENCED_MIRROR))
    stopped = zombie.wait_until_stopped()
    region.run()
    assert region.drift() == []
    resume(stopped)
    zombie.end()
    [fault, *_] = region.drift()
    found(seeded.UNFENCED_MIRROR, fault)


@pytest.mark.long
def test_rows_staged_by_attempt_alone_are_doubled_by_a_retry(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    seed = planted(seeded.STAGED_BY_ATTEMPT)
    code, _ = Broken.start(region, "run", "publish.before=raise", seed).end()
    assert code == 1
    ended(region, "retry", seed)
    found(seeded.STAGED_BY_ATTEMPT, first_fault(region, "rows doubled"))


@pytest.mark.long
def test_a_span_that_ends_at_its_last_record_never_completes(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    code, words = Broken.start(region, "run", seed=planted(seeded.END_IS_LAST_RECORD)).end()
    assert code == StagingLost.exit_code, words
    found(seeded.END_IS_LAST_RECORD, f"no run ends well: {words.split('.')[0]}")


@pytest.mark.long
def test_a_commit_that_was_a_rollback_is_noticed(region: FaultRegion, planted: Planted) -> None:
    code, words = Broken.start(region, "run", seed=planted(seeded.UNSEEN_FAILURE)).end()
    assert code == CommitRolledBack.exit_code
    assert CommitRolledBack.__name__ in words


def test_an_ignored_commit_tag_is_a_false_green(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    ended(region, "run", planted(seeded.IGNORED_COMMIT_TAG))
    found(seeded.IGNORED_COMMIT_TAG, f"exit code 0; {first_fault(region, 'ledger: the run of')}")


def test_success_that_nobody_asked_the_ledger_for_is_a_false_green(
    region: FaultRegion, planted: Planted, found: Found
) -> None:
    ended(region, "run", planted(seeded.SUCCESS_UNASKED))
    found(seeded.SUCCESS_UNASKED, f"exit code 0; {first_fault(region, 'rows lost')}")


def ended(region: FaultRegion, program: str, seed: Seed | None) -> None:
    """The program ran to an end that it calls good."""
    code, words = Broken.start(region, program, seed=seed).end()
    assert code == 0, words


def killed_in_publish(region: FaultRegion, seed: Seed | None) -> None:
    """A run publishes one batch and dies before the COMMIT of the next."""
    code, words = Broken.start(region, "run", "publish.moved=kill@2", seed).end()
    assert code == -signal.SIGKILL, words


def first_fault(region: FaultRegion, expected: str) -> str:
    """The first thing found; it must be of the expected kind."""
    fault = next(region.faults(), "nothing was found")
    assert expected in fault, fault
    return fault
