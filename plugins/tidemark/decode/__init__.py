"""Decoding: Kafka values into Arrow rows; what cannot be a row is rejected with its reason."""

from tidemark.decode.json import JsonDecoder
from tidemark.decode.port import Decoded, Decoder, Decoding, Reason, Rejected
from tidemark.decode.raw import RawDecoder

__all__ = ["Decoded", "Decoder", "Decoding", "JsonDecoder", "RawDecoder", "Reason", "Rejected"]
