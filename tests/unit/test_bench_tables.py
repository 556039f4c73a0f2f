"""What the bench divides by what."""

from scripts.attempt import Attempt, Run
from scripts.bench_paths import LARGE, SMALL, Path
from scripts.bench_tables import ratios, spread
from scripts.usage import Usage


def never() -> Attempt:
    raise AssertionError


def path(name: str, transform: str = "", batch: int | None = LARGE, in_flight: int = 1) -> Path:
    return Path(name, transform, batch, never, in_flight, ours=name == "Tidemark")


def took(*seconds: float) -> list[Run]:
    return [Run("t", one, Usage()) for one in seconds]


def test_tidemark_s_rows_per_second_are_divided_by_the_path_s_round_by_round() -> None:
    spark = path("Spark", batch=None)
    runs = {path("Tidemark"): took(10, 20), spark: took(30, 40)}
    assert ratios(spark, runs) == [3.0, 2.0]


def test_a_path_stands_beside_the_tidemark_with_its_transform_and_batch_size() -> None:
    stream, spark = path("stream", batch=SMALL), path("Spark", "DataFrame", None)
    runs = {
        path("Tidemark", batch=SMALL): took(10),
        path("Tidemark", batch=SMALL, in_flight=2): took(8),
        path("Tidemark"): took(5),
        path("Tidemark", "DataFrame"): took(20),
        stream: took(30),
        spark: took(30),
    }
    assert ratios(stream, runs) == [3.0]
    assert ratios(spark, runs) == [1.5]
    assert ratios(path("Tidemark", batch=SMALL, in_flight=2), runs) == [0.8]
    assert ratios(path("Tidemark"), runs) == []


def test_two_in_flight_need_two_batches() -> None:
    two = path("Tidemark", in_flight=2)
    assert two.reason(2 * LARGE) is None
    assert "less than two batches" in (two.reason(2 * LARGE - 1) or "")
    assert path("Tidemark").reason(1) is None


def test_medians_stand_with_the_least_and_the_most() -> None:
    assert spread([3.0, 1.0, 2.0], ".1f") == "2.0 (1.0-3.0)"
    assert spread([3.0], ".1f") == "3.0"
    assert spread([], ".1f") == "-"
