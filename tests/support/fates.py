"""What becomes of a value in a decoder: the same alone and among others."""

from collections.abc import Sequence

from tidemark.decode import Decoder


def assert_one_fate(decoder: Decoder, values: Sequence[bytes | None]) -> None:
    """Each value is a row or rejected, and neither depends on its neighbours."""
    together = decoder.decode(values)
    assert len(together.kept) + len(together.rejected) == len(values)
    rejected = {one.index: (one.reason, one.detail) for one in together.rejected}
    rows = dict(zip(together.kept.to_pylist(), map(repr, together.rows.to_pylist()), strict=True))
    for index, value in enumerate(values):
        alone = decoder.decode([value])
        assert [(one.reason, one.detail) for one in alone.rejected] == [
            rejected[index] for _ in alone.rejected
        ]
        assert list(map(repr, alone.rows.to_pylist())) == [rows[index] for _ in alone.kept]
