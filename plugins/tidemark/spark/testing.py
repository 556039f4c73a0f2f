"""For tests of your own Arrow transforms: what they make of a record depends on nothing else."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa

from tidemark.model.batch import ONLY

ArrowFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Mapping[str, pa.RecordBatch]]


def assert_cuts_change_nothing(
    transform: ArrowFunction, rows: pa.RecordBatch, *, tries: int = 50, seed: int = 0
) -> None:
    """The transform makes the same rows of `rows`, in any order, wherever they are cut.

    Of each target, if it makes rows for several.

    It is called with no row, twice with all, with each row alone, and with pieces of random size.

    Raises:
        AssertionError: it does not; names the cuts, and the first row or column that differs.
    """
    schemas = {name: made.schema for name, made in _parts(transform, rows.slice(0, 0))}
    expected = _made(transform, [rows], schemas, "the whole")
    for cuts in _cuts(rows.num_rows, tries, Random(seed)):  # noqa: S311 -- no secret
        ends = pairwise((0, *cuts, rows.num_rows))
        pieces = [rows.slice(start, end - start) for start, end in ends]
        where = f"in {len(pieces)} pieces, cut before rows {_shown(cuts)}" if cuts else "again"
        found = _made(transform, pieces, schemas, where)
        if found != expected:
            raise AssertionError(
                f"{where}: the row {_first(expected - found)} is missing, or is changed into"
                f" {_first(found - expected)}"
            )


def _shown(cuts: Sequence[int]) -> str:
    return ", ".join(map(str, cuts[:10])) + (" …" if len(cuts) > 10 else "")


def _first(rows: Counter[str]) -> str:
    return next(iter(rows), "(none)")


def _cuts(rows: int, tries: int, random: Random) -> Iterator[Sequence[int]]:
    yield ()
    if rows > 1:
        places = range(1, rows)
        yield places
        for _ in range(tries):
            yield sorted(random.sample(places, random.randint(1, len(places))))


def _parts(transform: ArrowFunction, piece: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    made = transform(piece)
    yield from made.items() if isinstance(made, Mapping) else [(ONLY, made)]


def _made(
    transform: ArrowFunction,
    pieces: Sequence[pa.RecordBatch],
    schemas: Mapping[str, pa.Schema],
    where: str,
) -> Counter[str]:
    """How often each row is made; texts, because NaN is not equal to itself."""
    found: Counter[str] = Counter()
    for piece in pieces:
        for name, made in _parts(transform, piece):
            if made.schema != schemas.get(name):
                raise AssertionError(
                    f"{where}: the columns of {piece.num_rows} rows are\n{made.schema}\nand of no"
                    f" rows\n{schemas.get(name)}"
                )
            of = f"{name}: " if name else ""
            found.update(f"{of}{row}" for row in _readable(made).to_pylist())
    return found


def _readable(made: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with dates and times as texts: Python's end with the year 9999."""
    columns = [
        column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
        for column in made.columns
    ]
    return pa.RecordBatch.from_arrays(columns, made.schema.names)
