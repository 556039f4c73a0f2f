"""Fields: the Arrow schema that a pipeline file declares.

Every field may be null, because a record may lack it.
"""

from collections.abc import Mapping

import pyarrow as pa

from tidemark.settings.errors import NoFieldDeclared
from tidemark.settings.field_types import Array, Decimal, FieldType, Struct, check_names, parse_type

_ARROW = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_schema(fields: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of declared fields, in their order; every field may be null.

    Raises:
        InvalidSettings: no field, a name that cannot be a column, or a type that is not known.
    """
    if not fields:
        raise NoFieldDeclared
    check_names(fields)
    return pa.schema([pa.field(name, arrow_type(name, text)) for name, text in fields.items()])


def arrow_type(field: str, text: str) -> pa.DataType:
    """The Arrow type that `text` names; `field` is for the error alone.

    Raises:
        InvalidSettings: the text is not one type; names the field, the text and what is allowed.
    """
    return _arrow(parse_type(text, field))


def _arrow(declared: FieldType) -> pa.DataType:
    match declared:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(item):
            return pa.list_(_arrow(item))
        case Struct(members):
            return pa.struct([pa.field(name, _arrow(member)) for name, member in members])
        case _:
            return _ARROW[declared.name]
