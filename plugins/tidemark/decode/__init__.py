"""Decoding: Kafka values into Arrow rows; what cannot be a row is rejected with its reason."""

from tidemark.decode.json import JsonDecoder
from tidemark.decode.outcome import Decoded, Reason, Rejected
from tidemark.decode.raw import RawDecoder

__all__ = ["Decoded", "JsonDecoder", "RawDecoder", "Reason", "Rejected"]
