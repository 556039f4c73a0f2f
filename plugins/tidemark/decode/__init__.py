"""Decoding: Kafka values into Arrow rows; what cannot be a row is rejected with its reason.

Doors: formats, framing, infer, port, record_types, registry, registry_columns.

It never raises over a value, opens no file that a value names, and asks nobody but the registry.
"""

from tidemark.decode._json import JsonDecoder
from tidemark.decode._raw import RawDecoder
from tidemark.decode.port import Decoded, Decoder, Decoding, Reason, Rejected

__all__ = ["Decoded", "Decoder", "Decoding", "JsonDecoder", "RawDecoder", "Reason", "Rejected"]
