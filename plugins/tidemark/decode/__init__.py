"""Decoding: Kafka values into Arrow rows; what cannot be a row is rejected with its reason."""

from tidemark.decode._json import JsonDecoder
from tidemark.decode._raw import RawDecoder
from tidemark.decode.port import Decoded, Decoder, Decoding, Reason, Rejected

__all__ = ["Decoded", "Decoder", "Decoding", "JsonDecoder", "RawDecoder", "Reason", "Rejected"]
