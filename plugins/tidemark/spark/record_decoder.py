"""RecordDecoder: records into rows, by their values and by what else tells how to read these."""

from confluent_kafka import Message

from tidemark.decode import Decoded, Decoding, Reason
from tidemark.decode.header_ids import VALUE, HeaderIds
from tidemark.decode.outcome import Refusal
from tidemark.decode.subset import decoded
from tidemark.kafka.headers import HeadersOf
from tidemark.settings.decode import Format, Framing
from tidemark.spark.decoders import decoder_of


class RecordDecoder:
    """The decoder of a pipeline."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoder = decoder_of(decoding)
        self._ids: HeaderIds | None = None
        if decoding.framing == Framing.headers:
            self._ids = HeaderIds(VALUE, has_path=decoding.format == Format.protobuf)
        self.schema = self._decoder.schema

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        """The rows of the good records, and the others with their reasons."""
        return decoded(self._decoder, [self._value(record, headers_of) for record in records])

    def _value(self, record: Message, headers_of: HeadersOf) -> bytes | Refusal | None:
        value: bytes | None = record.value()
        if self._ids is None:
            return value
        headers = headers_of(record)
        if headers is None:
            return Refusal(Reason.NOT_FRAMED, "the Kafka client can't return the record's headers")
        return self._ids.framed(value, headers)
