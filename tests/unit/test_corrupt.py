"""Where a corrupt batch ends, told from what reading at offsets meets first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tidemark.kafka import locate
from tidemark.kafka._corrupt import DIED, SAMPLES, UNTOLD, extent
from tidemark.kafka.errors import RangeNotLeftOut
from tidemark.model.offsets import Span, TopicPartition

LOG_END = 2000


def log(*batches: tuple[int, int, int]) -> Callable[[int], int | None]:
    """A log that is sound but for these: start, end, and what is met there."""

    def found_at(offset: int) -> int | None:
        return next((met for start, end, met in batches if start <= offset < end), None)

    return found_at


@pytest.mark.parametrize("end", [21, 22, 30, 523, LOG_END])
@pytest.mark.parametrize("met", [20, DIED])
def test_a_batch_ends_where_something_else_is_met(met: int, end: int) -> None:
    assert extent(log((20, end, met)), 20, LOG_END) == end


def test_what_cannot_be_told_is_one_offset() -> None:
    assert extent(log((20, 30, UNTOLD)), 20, LOG_END) == 21


def test_an_end_that_cannot_be_told_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """G42: the broker is silent while one looks at the last offset; sound records may lie there."""

    @contextmanager
    def silent(*_: object) -> Iterator[Callable[[int], int | None]]:
        yield log((20, 30, 20), (39, 40, UNTOLD))

    monkeypatch.setattr(locate, "probing", silent)
    mistyped, at = Span("t", 0, 20, 40), TopicPartition("t", 0)
    with pytest.raises(RangeNotLeftOut) as refused:
        locate.confirm_corrupt({}, [mistyped], {at: 40})
    assert refused.value.span == mistyped
    locate.confirm_corrupt({}, [Span("t", 0, 20, 30)], {at: 40})


def test_of_two_batches_that_name_themselves_only_the_first_counts() -> None:
    assert extent(log((20, 30, 20), (30, 40, 30)), 20, LOG_END) == 30


@pytest.mark.parametrize("sound", [(40, 60), (50, 51 + 60 // SAMPLES)])
def test_a_sound_part_between_two_that_kill_the_client_is_left(sound: tuple[int, int]) -> None:
    """An offset far into the second one is tried before any of the sound part is."""
    found_at = log((20, sound[0], DIED), (sound[1], 90, DIED))
    assert found_at(20 + 63) == DIED
    assert extent(found_at, 20, LOG_END) == sound[0]


def test_looks_that_run_out_of_time_make_a_range_shorter() -> None:
    asked: list[int] = []

    def found_at(offset: int) -> int:
        asked.append(offset)
        return DIED if len(asked) < 6 and offset < 100 else UNTOLD

    assert 20 < extent(found_at, 20, LOG_END) <= 100
