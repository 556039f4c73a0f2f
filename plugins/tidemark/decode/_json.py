"""JsonDecoder: JSON objects into the declared columns, a block at a time.

Arrow's own reader reads all values at once, if each of them is one JSON object by itself. Where it
takes them all, they are the rows. Else each value is checked by itself, for all that makes it no
row, and those that pass are read together. If the reader refuses these, suspects are read alone and
the refused among them left out; without any the block is split until the refused stand alone. A
value that stands alone is read by the same code, so a record's fate and value are the same alone
and in any company.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter, length_hint
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from tidemark.decode._check import CHECK_ERRORS, Check
from tidemark.decode._columns import convert, wire_schema
from tidemark.decode._why import HUGE, of_unread
from tidemark.decode.port import MAX_VALUE_BYTES, Decoded, Reason, Refusal, Rejected


def suspects(documents: list[bytes], names: Counter[bytes], most: int) -> list[int]:
    """Rows that look like what the reader refuses: a hint that spares many readings.

    What more than `most` rows have is no sign of that.
    """
    huge = pc.match_substring_regex(pa.array(documents, pa.binary()), HUGE)
    signs = [pc.indices_nonzero(huge).to_pylist()]
    colons = [document.count(b":") for document in documents]
    usual = Counter(colons).most_common(1)[0][0]
    rich = [row for row, count in enumerate(colons) if count > usual]
    for name, times in names.items():
        signs.append([row for row in rich if documents[row].count(name) > times])
    return sorted({row for rows in signs if len(rows) <= most for row in rows})


def parts(rows: list[int], refused: Collection[int]) -> list[list[int]]:
    """The rows but the refused, in halves: in quarters where none could be left out.

    However many are refused, none is read too often. The last part first.
    """
    step = -(-len(rows) // (2 if refused else 4))
    cut = [rows[low : low + step] for low in range(0, len(rows), step)]
    left = ([row for row in part if row not in refused] for part in reversed(cut))
    return [part for part in left if part]


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
        self._names = Counter(f'"{name}"'.encode() for name in _names(schema))
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
                    rejected.append(of_unread(block[0], self.schema, refusal).of(indices[rows[0]]))
                    continue
                refused = self._refused_alone(rows, documents)
                rejected += [one.of(indices[row]) for row, one in refused.items()]
                todo += parts(rows, refused)
            else:
                rejected += [refusal.of(indices[rows[row]]) for row, refusal in bad.items()]
                yield _without(batch, bad)

    def _refused_alone(self, rows: list[int], documents: list[bytes]) -> dict[int, Refusal]:
        """Which of a refused block's suspects are refused alone too, if suspects are few."""
        found: dict[int, Refusal] = {}
        if not (most := len(rows) // _FEW):
            return found
        suspected = suspects([documents[row] for row in rows], self._names, most)
        for at in suspected if len(suspected) <= most else ():
            document = documents[rows[at]]
            try:
                self._table([document], _lines([document]))
            except Refusal as one:
                found[rows[at]] = of_unread(document, self.schema, one)
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
            raise Refusal(Reason.WRONG_TYPE, str(error)) from error
        if len(table) != len(documents):
            raise Refusal(Reason.INVALID_JSON, f"{len(table)} rows from {len(documents)} values")
        return table


def _decoded(rows: pa.RecordBatch, count: int, rejected: list[Rejected]) -> Decoded:
    """The rows of all of `count` values but the rejected, which may be in any order."""
    kept = pa.array(_others(range(count), rejected), pa.int64())
    return Decoded(rows, kept, sorted(rejected, key=attrgetter("index")))


def _names(of: pa.Schema | pa.StructType) -> Iterator[str]:
    """Of the fields that are there once in a value."""
    for field in of:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names(field.type)


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
