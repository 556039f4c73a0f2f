"""Decoders by their format: one of Tidemark's, or a class of the user's own by its name."""

import importlib
from typing import Any

import pyarrow as pa

from tidemark.decode.formats import FORMATS
from tidemark.decode.port import Decoder, Decoding, IsolatingDecoder
from tidemark.settings.fields import check_names
from tidemark.spark.cause import cause
from tidemark.spark.errors import (
    OwnDecoderHasNoColumns,
    OwnDecoderNotMade,
    OwnDecoderNotNullable,
)
from tidemark.spark.guarded import GuardedDecoder


def decoder_of(decoding: Decoding) -> Decoder:
    """The decoder of this format.

    Raises:
        InvalidSettings: there is no such class, or it can't be made, or has no usable columns.
    """
    if made := FORMATS.get(decoding.format):
        return IsolatingDecoder(made(decoding))
    try:
        own = _class(decoding.format)(decoding.declared, **decoding.options)
        schema = own.schema
    except Exception as error:
        raise OwnDecoderNotMade(decoder=decoding.format, cause=cause(error)) from None
    _refuse_columns(decoding.format, schema)
    return GuardedDecoder(own, schema, decoding.format)


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _refuse_columns(name: str, schema: Any) -> None:
    if not isinstance(schema, pa.Schema) or not len(schema):
        raise OwnDecoderHasNoColumns(decoder=name)
    check_names(schema.names)
    if never_null := tuple(field.name for field in schema if not field.nullable):
        raise OwnDecoderNotNullable(decoder=name, columns=never_null)
