"""JsonDecoder: JSON objects into the declared columns, a block at a time.

Arrow's own reader reads all values at once, if each of them is one JSON object by itself. Where it
takes them all, they are the rows. Else each value is checked by itself, for all that makes it no
row, and those that pass are read together. If the reader refuses these, suspects are read alone and
the refused among them left out; without any the block is split until the refused stand alone. What
Arrow says of a block is a hint alone: a value that stands alone is read by the same code, and a
record's fate and value are the same alone and in any company.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter, length_hint
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from tidemark.decode._check import CHECK_ERRORS, Check
from tidemark.decode._columns import convert, wire_schema
from tidemark.decode.port import MAX_VALUE_BYTES, Decoded, Reason, Refusal, Rejected

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


MAX_BLOCK_BYTES = 256 * 1024 * 1024

_FEW = 50
"""At most one in so many rows is read alone: that costs what reading a hundred together does."""


class JsonDecoder:
    """Reads JSON objects into the columns of `schema`.

    A missing field and a null are null, an undeclared field is ignored. Numbers are not read from
    text (decimals are), nor text from numbers, nor an integer from 1.0. Not to be pickled.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        max_bytes: int = MAX_VALUE_BYTES,
        takes_null: bool = False,
        refuses_new: bool = False,
    ) -> None:
        """`takes_null`: a record without a value is a row of nulls; else it is rejected.

        `refuses_new`: so is a record with a field that is not declared.
        """
        self.schema = schema
        self._takes_null = takes_null
        self._check = Check(schema, max_bytes, refuses_new=refuses_new)
        self._options = arrow_json.ParseOptions(
            explicit_schema=wire_schema(schema), unexpected_field_behavior="ignore"
        )

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the good values, in order, and the others with their reasons.

        The values are one poll's worth: together well under 2 GiB.
        """
        if self._takes_null:
            values = [b"{}" if value is None else value for value in values]
        return self._at_once(values) or self._one_by_one(values)

    def _at_once(self, values: Sequence[bytes | None]) -> Decoded | None:
        """What the reader makes of all values; None if a full check may refuse one of them.

        The reader refuses what a full check does, which costs three times as much as this one.
        """
        if self._check.is_object is None:
            return None
        try:
            documents = cast(Sequence[bytes], values)  # None is no object
            deque(map(self._check.is_object, documents), maxlen=0)
            lines = _lines(documents)
            if self._check.suspects(documents, lines):
                return None
            rows, refused = self._parse(documents, lines)
        except CHECK_ERRORS:
            return None
        if any(map(_has_infinity, rows.columns)):
            return None
        rejected = [refusal.of(row) for row, refusal in refused.items()]
        return _decoded(_without(rows, refused), len(values), rejected)

    def _one_by_one(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the values that pass a full check, and that the reader takes."""
        rejected: list[Rejected] = []
        passed = self._passed(list(values), rejected)
        batches = list(self._read(passed, _documents(values, passed), rejected))
        return _decoded(_one_batch(batches, self.schema), len(values), rejected)

    def _passed(self, values: list[bytes | None], rejected: list[Rejected]) -> list[int]:
        """The indices of the values that pass every check by themselves."""
        self._check_each(values, rejected)
        decoded = _others(range(len(values)), rejected)
        documents = _documents(values, decoded)
        for row in self._check.suspects(documents, _lines(documents)):
            if refusal := self._check.hidden(documents[row]):
                rejected.append(refusal.of(decoded[row]))
        return _others(decoded, rejected)

    def _check_each(self, values: list[bytes | None], rejected: list[Rejected]) -> None:
        """Runs in C from one rejected value to the next, for every record passes here."""
        remaining = iter(values)
        while length_hint(remaining):
            try:
                deque(map(self._check.decode, remaining), maxlen=0)  # type: ignore[arg-type]
            except CHECK_ERRORS as error:
                index = len(values) - length_hint(remaining) - 1
                rejected.append(self._check.refusal(values[index], error).of(index))

    def _read(
        self, indices: list[int], documents: list[bytes], rejected: list[Rejected]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all documents but those that it rejects, in order."""
        todo = self._check.blocks(documents)[::-1]
        while todo:
            rows = todo.pop()
            block = [documents[row] for row in rows]
            try:
                batch, bad = self._parse(block, _lines(block))
            except Refusal as refusal:
                if len(rows) == 1:
                    rejected.append(alone(refusal).of(indices[rows[0]]))
                    continue
                refused = self._refused_alone(rows, documents, refusal)
                rejected += [one.of(indices[row]) for row, one in refused.items()]
                todo += parts(rows, refusal, refused)
            else:
                rejected += [refusal.of(indices[rows[row]]) for row, refusal in bad.items()]
                yield _without(batch, bad)

    def _refused_alone(
        self, rows: list[int], documents: list[bytes], refusal: Refusal
    ) -> dict[int, Refusal]:
        """Which of a refused block's suspects are refused alone too, if suspects are few."""
        suspected = suspects([documents[row] for row in rows], refusal)
        found: dict[int, Refusal] = {}
        for at in suspected if len(suspected) * _FEW <= len(rows) else ():
            document = documents[rows[at]]
            try:
                self._table([document], _lines([document]))
            except Refusal as one:
                found[rows[at]] = alone(one)
        return found

    def _parse(
        self, documents: Sequence[bytes], lines: bytes
    ) -> tuple[pa.RecordBatch, dict[int, Refusal]]:
        """A row per document, and the rows that a column refuses; or a Refusal of the block."""
        table = self._table(documents, lines)
        return convert(_one_batch(table.to_batches(), table.schema), self.schema)

    def _table(self, documents: Sequence[bytes], lines: bytes) -> pa.Table:
        """A row per document, as Arrow's reader reads them; or a Refusal of the block."""
        if len(lines) > MAX_BLOCK_BYTES and len(documents) > 1:
            raise Refusal(Reason.TOO_LARGE, "the block is too large to be read in one piece")
        try:
            table = arrow_json.read_json(
                pa.BufferReader(lines),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=self._options,
            )
        except pa.ArrowInvalid as error:
            raise of_reader(str(error)) from error
        if len(table) != len(documents):
            raise Refusal(Reason.INVALID_JSON, f"{len(table)} rows from {len(documents)} values")
        return table


def _decoded(rows: pa.RecordBatch, count: int, rejected: list[Rejected]) -> Decoded:
    """The rows of all of `count` values but the rejected, which may be in any order."""
    kept = pa.array(_others(range(count), rejected), pa.int64())
    return Decoded(rows, kept, sorted(rejected, key=attrgetter("index")))


def _lines(documents: Sequence[bytes]) -> bytes:
    return b"\n".join([*documents, b""])


def _has_infinity(values: pa.Array) -> bool:
    """Whether a number was too large for its type: the reader makes it infinite."""
    if pa.types.is_struct(values.type):
        return any(map(_has_infinity, values.flatten()))
    if pa.types.is_list(values.type):
        return _has_infinity(values.flatten())
    return pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py() is True


def _without(batch: pa.RecordBatch, bad: dict[int, Refusal]) -> pa.RecordBatch:
    if not bad:
        return batch
    return batch.filter(pa.array([row not in bad for row in range(len(batch))]))


def _documents(values: Sequence[bytes | None], indices: list[int]) -> list[bytes]:
    return [value for index in indices if (value := values[index]) is not None]


def _others(indices: Iterable[int], rejected: list[Rejected]) -> list[int]:
    if not rejected:
        return list(indices)
    gone = {one.index for one in rejected}
    return [index for index in indices if index not in gone]


def _one_batch(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], schema))
