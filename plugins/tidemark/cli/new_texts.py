"""New texts: names and types that a topic chose, as YAML, Python and SQL spell them."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from tidemark.cli.output import inert
from tidemark.model.upsert import Upsert
from tidemark.settings.field_types import Array, Decimal, FieldType, Struct, parse_type
from tidemark.settings.format import Format
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.fit import quoted

if TYPE_CHECKING:
    from tidemark.cli.proposal import Proposal
    from tidemark.staging.column import Column

_SAMPLES: dict[str, Any] = {
    "boolean": True, "smallint": 1, "int": 1, "bigint": 1, "float": 1.5, "double": 1.5,
    "string": "text", "binary": "AAEC", "date": "2024-01-31", "timestamp": "2024-01-31T12:00:00Z",
}  # fmt: skip
_FRAME = 'b"\\0\\0\\0\\0\\1"'
"""An id in front of a value."""


def scalar(text: str) -> str:
    """A text that YAML reads back as it is, on one line; it has no unprintable character."""
    is_plain = re.fullmatch(r"[\w.-]*\w", text) and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def decode_lines(proposal: "Proposal") -> Iterator[str]:
    """The lines of the section `decode`, with what is left out as comments."""
    for key, value in proposal.decode.items():
        yield f"{key}: {scalar(value)}"
    if proposal.metadata:
        yield f"metadata: {_listed(proposal.metadata)}"
    if proposal.fields:
        yield "schema:"
    for one in proposal.fields:
        if one.type:
            yield f"  {scalar(one.name)}: {_typed(one.type)}"
        else:
            yield f"  # {inert(one.name)}: {inert(one.why)}"


def mode_lines(upsert: Upsert | None) -> Iterator[str]:
    """The lines of the section `target` that say how rows enter it."""
    if upsert:
        yield "mode: upsert"
        yield f"key: {_listed(upsert.key)}"
    if upsert and upsert.deleted:
        yield f"deleted: {scalar(upsert.deleted)}"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(map(scalar, names))}]"


def record(proposal: "Proposal") -> str:
    """A made-up value of a record, as Python; its fields are of the declared types."""
    if proposal.decode["format"] == Format.raw:
        return 'b"bytes"'
    fields = [(name, _sample(parse_type(text))) for name, text in proposal.declared.items()]
    row = _lines((_literal(name), _literal(value)) for name, value in fields)
    if "envelope" in proposal.decode:
        after = row.replace("\n", "\n    ")  # names are escaped: each is on one line
        row = _lines([('"op"', '"c"'), ('"before"', "None"), ('"after"', after)])
    return f"{_FRAME} + json.dumps({row}).encode()" if "framing" in proposal.decode else row


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    """A dict as Python spells it, a line each."""
    lines = "".join(f"    {key}: {value},\n" for key, value in pairs)
    return f"{{\n{lines}}}"


def columns(proposal: "Proposal", upsert: Upsert | None) -> str:
    """What a run gives the table that it makes of the rows, as SQL, a line each."""
    found = [f"{quoted(one.name)} {one.postgres_type}" for one in table_columns(proposal, upsert)]
    found.append(f"{BATCH_SEQ} bigint NOT NULL")
    if upsert:
        found.append(f"PRIMARY KEY ({', '.join(map(quoted, upsert.key))})")
    return ",\n".join(f"    {line}" for line in found)


def table_columns(proposal: "Proposal", upsert: Upsert | None) -> "list[Column]":
    """The columns of the rows that the table gets: metadata is what the transform drops."""
    from tidemark.settings.decode import DecodeSettings
    from tidemark.spark.specs import columns_given
    from tidemark.staging.columns import columns_of

    settings = DecodeSettings.model_validate({**proposal.section, "metadata": []})
    found = columns_of(columns_given(settings))
    return [one for one in found if not upsert or one.name != upsert.deleted]


def _typed(text: str) -> str:
    is_plain = re.fullmatch(r"[\w(),<>:]+", text, re.ASCII)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _literal(value: Any) -> str:
    """As Python spells it, in ASCII and with double quotes."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case str() if value.isascii():
            return json.dumps(value)
        case _:
            return ascii(value)


def _sample(declared: FieldType) -> Any:
    match declared:
        case Decimal():
            return "0"
        case Array(item):
            return [_sample(item)]
        case Struct(members):
            return {name: _sample(member) for name, member in members}
        case _:
            return _SAMPLES[declared.name]
