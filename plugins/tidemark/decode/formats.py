"""The formats that Tidemark has, each by the function that makes its decoder."""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from tidemark.decode._connect import (
    DELETED_NAME,
    PAYLOAD_NAME,
    payload_of,
    unless_deleted,
    with_deleted_as_boolean,
)
from tidemark.decode._debezium import (
    DELETED,
    ROWS,
    DebeziumDecoder,
    Unavailable,
    UnavailableDecoder,
)
from tidemark.decode._json import JsonDecoder
from tidemark.decode._no_field import NoFieldDecoder, names_of_change
from tidemark.decode._raw import RawDecoder
from tidemark.decode.framing import Part, PartDecoder, behind_id
from tidemark.decode.port import Decoder, Decoding
from tidemark.decode.registry import registry_of
from tidemark.settings.decode import DELETED_FIELD, Envelope
from tidemark.settings.format import Format


def _json(decoding: Decoding) -> Decoder:
    decoder = _enveloped(
        decoding,
        lambda columns: JsonDecoder(
            columns, takes_null=decoding.takes_null, refuses_new=decoding.refuses_new
        ),
    )
    if not decoding.takes_no_field:
        decoder = _with_a_field(decoding, decoder)
    for part, mark in _parts(decoding):
        decoder = PartDecoder(decoder, part, mark)
    return decoder


def _with_a_field(decoding: Decoding, decoder: Decoder) -> Decoder:
    names = decoding.declared.names
    if decoding.envelope != Envelope.debezium:
        return NoFieldDecoder(decoder, names)
    passes = DELETED if decoding.key else None  # the record's key may be all that is known
    return NoFieldDecoder(decoder, names, names_of_change, passes=passes)


def _parts(decoding: Decoding) -> Iterator[tuple[Part, bytes]]:
    """What is taken of a value of JSON, the innermost first; and what has to stand in it."""
    if decoding.refuses_deletion:
        yield unless_deleted, DELETED_NAME
    flag = pa.field(DELETED_FIELD, pa.bool_())
    if decoding.envelope != Envelope.debezium and flag in [*decoding.declared]:
        yield with_deleted_as_boolean, DELETED_NAME
    if decoding.envelope == Envelope.connect:
        yield payload_of, PAYLOAD_NAME
    if decoding.framing:
        yield behind_id, b""


def _avro(decoding: Decoding) -> Decoder:
    from tidemark.decode._avro import AvroDecoder  # with numpy, which only it needs

    registry = registry_of(decoding.registry)
    return _enveloped(
        decoding,
        lambda columns: AvroDecoder(
            columns,
            registry,
            takes_null=decoding.takes_null,
            refuses_new=decoding.refuses_new,
            rows=_rows(decoding),
            refuses_deletion=decoding.refuses_deletion,
        ),
    )


def _rows(decoding: Decoding) -> tuple[str, ...]:
    """Where in a writer's schema a record must have one of the declared fields."""
    if decoding.takes_no_field:
        return ()
    return ROWS if decoding.envelope == Envelope.debezium else ("$",)


def _protobuf(decoding: Decoding) -> Decoder:
    from tidemark.decode._protobuf import (
        DescribedMessage,
        Kinds,
        Messages,
        ProtobufDecoder,
        Registered,
    )

    def kinds(columns: pa.Schema) -> Kinds:
        reading = partial(
            Messages,
            schema=columns,
            refuses_new=decoding.refuses_new,
            rows=_rows(decoding),
            refuses_deletion=decoding.refuses_deletion,
        )
        if decoding.registry:
            return Registered(registry_of(decoding.registry), reading, decoding.message)
        is_framed = decoding.framing is not None
        return DescribedMessage(
            decoding.descriptors, decoding.message, reading, is_framed=is_framed
        )

    return _enveloped(
        decoding,
        lambda columns: ProtobufDecoder(columns, kinds(columns), takes_null=decoding.takes_null),
    )


def _enveloped(decoding: Decoding, decoder_of: Callable[[pa.Schema], Decoder]) -> Decoder:
    placeholder = Unavailable(decoding.placeholder) if decoding.placeholder else None
    if decoding.envelope == Envelope.debezium:
        return DebeziumDecoder(
            decoding.declared, decoder_of, decoding.source, placeholder, old_key=decoding.old_key
        )
    if placeholder:
        return UnavailableDecoder(decoding.declared, decoder_of, placeholder)
    return decoder_of(decoding.declared)


def _raw(decoding: Decoding) -> Decoder:
    return RawDecoder()


FORMATS: dict[str, Callable[[Decoding], Decoder]] = {
    Format.json: _json,
    Format.raw: _raw,
    Format.avro: _avro,
    Format.protobuf: _protobuf,
}
"""A decoder is made without the network."""
