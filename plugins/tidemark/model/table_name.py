"""A table's name as SQL spells it: `public.flights` or `"My Schema"."Flights 2"`."""

import re

from tidemark.model.errors import TableInOwnSchema, TableNameMalformed, TableNameTooLong

NAME_BYTES = 63
"""NAMEDATALEN - 1: longer names would be cut."""

OURS = ("tidemark", "tidemark_staging")
"""Schemas of the ledger and of staging tables: no target lies in them."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
_PART = r'(?:[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"\0]|"")+")'
_NAME = re.compile(rf"({_PART})\.({_PART})")


def parse_table(text: str) -> tuple[str, str]:
    """The exact names of schema and table; as in SQL, unquoted is lower case.

    Raises:
        InvalidSettings: not two identifiers, or one has more than 63 bytes.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise TableNameMalformed(name=text)
    schema, table = map(_unquoted, match.groups())
    for part in (schema, table):
        if (size := len(part.encode())) > NAME_BYTES:
            raise TableNameTooLong(name=part, size=size, limit=NAME_BYTES)
    return schema, table


def spelled(text: str) -> str:
    """The one spelling of a target's table, however it was written: quoted only where it must be.

    Raises:
        InvalidSettings: see `parse_table`; or it lies in a schema of Tidemark's own.
    """
    schema, table = parse_table(text)
    if schema in OURS:
        raise TableInOwnSchema(schema=schema)
    return ".".join(map(_quoted, (schema, table)))


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return name if _PLAIN.fullmatch(name) else f'"{doubled}"'
