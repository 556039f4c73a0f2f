"""Blocks of JSON that Arrow's reader refuses: by what it says, which rows are read again, and how.

A hint alone: the fate of each value is found by reading it.
"""

import re
from collections.abc import Collection
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode.outcome import Reason, Refusal

_ROW = re.compile(r" in row (\d+)$")
_TWICE = re.compile(r"Column\(.*/(.*)\) was specified twice")
_HUGE = r"[eE]\+?[0-9]{3}"


def of_reader(text: str) -> Refusal:
    """The refusal of a block, from what the reader says."""
    if _TWICE.search(text):
        return Refusal(Reason.DUPLICATE_KEY, text)
    return Refusal(Reason.OUT_OF_RANGE if "too big" in text else Reason.WRONG_TYPE, text)


def alone(refusal: Refusal) -> Refusal:
    """The refusal of a value that stood alone: it says nothing of rows."""
    refusal.detail = _ROW.sub("", refusal.detail)
    return refusal


def suspects(documents: list[bytes], refusal: Refusal) -> list[int]:
    """Which rows look like what the block is refused for: a hint that spares many readings."""
    if found := _TWICE.search(refusal.detail):
        key = f'"{found[1]}"'.encode()
        return [row for row, document in enumerate(documents) if document.count(key) > 1]
    if refusal.reason is Reason.OUT_OF_RANGE:
        huge = pc.match_substring_regex(pa.array(documents, pa.binary()), _HUGE)
        return pc.indices_nonzero(huge).to_pylist()  # type: ignore[no-any-return]
    return []


def parts(rows: list[int], refusal: Refusal, refused: Collection[int]) -> list[list[int]]:
    """The rows but the refused, cut around the one that the refusal names, or in halves.

    Where none could be left out, both: however many are refused, none is read too often. The last
    part first.
    """
    found = _ROW.search(refusal.detail)
    mark = int(found[1]) if found else len(rows)
    cuts = {mark, mark + 1} if mark < len(rows) else {len(rows) // 2}
    if not refused:
        cuts.add((max(cuts) + len(rows)) // 2)
    edges = sorted({0, len(rows)} | cuts, reverse=True)
    cut = ([row for row in rows[low:high] if row not in refused] for high, low in pairwise(edges))
    return [part for part in cut if part]
