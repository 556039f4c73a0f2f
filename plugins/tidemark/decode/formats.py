"""The formats that Tidemark has, each by the function that makes its decoder."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from tidemark.decode._debezium import DebeziumDecoder, Unavailable, UnavailableDecoder
from tidemark.decode._json import JsonDecoder
from tidemark.decode._raw import RawDecoder
from tidemark.decode.framing import FramedDecoder
from tidemark.decode.port import Decoder, Decoding
from tidemark.decode.registry import registry_of
from tidemark.settings.format import Format


def _json(decoding: Decoding) -> Decoder:
    decoder = _enveloped(
        decoding,
        lambda columns: JsonDecoder(
            columns, takes_null=decoding.takes_null, refuses_new=decoding.refuses_new
        ),
    )
    return FramedDecoder(decoder) if decoding.framing else decoder


def _avro(decoding: Decoding) -> Decoder:
    from tidemark.decode._avro import AvroDecoder  # with numpy, which only it needs

    registry = registry_of(decoding.registry)
    return _enveloped(
        decoding,
        lambda columns: AvroDecoder(
            columns, registry, takes_null=decoding.takes_null, refuses_new=decoding.refuses_new
        ),
    )


def _protobuf(decoding: Decoding) -> Decoder:
    from tidemark.decode._protobuf import (
        DescribedMessage,
        Kinds,
        Messages,
        ProtobufDecoder,
        Registered,
    )

    def kinds(columns: pa.Schema) -> Kinds:
        reading = partial(Messages, schema=columns, refuses_new=decoding.refuses_new)
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
    if decoding.envelope:
        return DebeziumDecoder(decoding.declared, decoder_of, decoding.source, placeholder)
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
