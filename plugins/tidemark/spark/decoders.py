"""Decoders by their format: one of Tidemark's, or a class of the user's own by its name."""

import importlib
from typing import Any

import pyarrow as pa

from tidemark.decode.formats import FORMATS
from tidemark.decode.port import Decoder, Decoding
from tidemark.errors import InvalidSettings
from tidemark.settings.field_types import check_names
from tidemark.spark.cause import cause
from tidemark.spark.guarded import GuardedDecoder


def decoder_of(decoding: Decoding) -> Decoder:
    """The decoder of this format.

    Raises:
        InvalidSettings: there is no such class, or it can't be made, or has no usable columns.
    """
    if made := FORMATS.get(decoding.format):
        return made(decoding)
    try:
        own = _class(decoding.format)(decoding.declared, **decoding.options)
        schema = own.schema
    except Exception as error:
        raise InvalidSettings(
            f"decoder {decoding.format} can't be made: {cause(error)}. Name an importable"
            " module:Class whose folder is on PYTHONPATH (that of transforms is), which takes the"
            " declared columns and decode.options, and has a schema"
        ) from None
    _refuse_columns(decoding.format, schema)
    return GuardedDecoder(own, schema, decoding.format)


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _refuse_columns(name: str, schema: Any) -> None:
    if not isinstance(schema, pa.Schema) or not len(schema):
        raise InvalidSettings(f"decoder {name}: its schema must be a pyarrow.Schema with columns")
    check_names(schema.names)
    if never_null := [field.name for field in schema if not field.nullable]:
        raise InvalidSettings(
            f"decoder {name}: its columns {', '.join(never_null)} are not nullable: every column"
            " of a decoder may be null"
        )
