"""What decoding takes: `make bench WHAT=decode`. CPU microseconds a record, of the flights as JSON.

Beside it the two libraries that it rests on, on the same blocks: neither refuses all that must be
refused. Then the same flights in Avro and in Protobuf, and what one bad record in a thousand adds,
by its kind. Rounds are interleaved; figures are medians, which other load makes larger.
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyarrow import json as arrow_json
from rich.console import Console
from rich.table import Table
from scripts.bench.formats import in_avro, in_protobuf
from scripts.demo.flight_data import records

from tidemark.decode import JsonDecoder
from tidemark.decode._check import Check
from tidemark.decode._columns import wire_schema
from tidemark.decode.port import MAX_VALUE_BYTES
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.records import RECORDS_A_BLOCK

EXAMPLE = Path(__file__).resolve().parents[2] / "dags" / "flights.yaml"
RECORDS = 10 * RECORDS_A_BLOCK
ROUNDS = 7
ONE_IN = 1_000
BAD: dict[str, Callable[[bytes], bytes | None]] = {
    "no value": lambda value: None,
    "cut off": lambda value: value[:-20],
    "a text for a number": lambda value: value.replace(b'"month": ', b'"month": "x", "m": '),
    "a number too large": lambda value: value.replace(b'"day": ', b'"day": 1e999, "d": '),
    "not UTF-8": lambda value: value.replace(b'"dest": "', b'"dest": "\xff'),
    "U+0000 in a text": lambda value: value.replace(b'"dest": "', b'"dest": "\\u0000'),
    "no timestamp": lambda value: value.replace(b'"2013-', b'"2013?'),
    "a key twice": lambda value: value[:-1] + b', "day": 7}',
}

Values = list[bytes | None]
Step = Callable[[Values], object]


def microseconds(step: Step, values: Values) -> float:
    """CPU time a record, block by block as a reader does."""
    began = time.process_time()
    for start in range(0, len(values), RECORDS_A_BLOCK):
        step(values[start : start + RECORDS_A_BLOCK])
    return (time.process_time() - began) / len(values) * 1e6


def checked(schema: pa.Schema) -> Step:
    """The check of each value by itself."""
    decode = Check(schema, MAX_VALUE_BYTES).decode
    return lambda values: deque(map(decode, values), maxlen=0)  # type: ignore[arg-type]


def read(schema: pa.Schema) -> Step:
    """Arrow's reader, told the types."""
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def step(values: Values) -> object:
        data = b"\n".join(value for value in values if value is not None)
        size = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        return arrow_json.read_json(pa.BufferReader(data), size, options)

    return step


def main() -> None:
    """Measure, and print a table."""
    schema = arrow_schema(Pipeline.load(EXAMPLE).decode.declared)
    flights = [value for _, value in islice(records(), RECORDS)]
    decoder, values = JsonDecoder(schema), Values(flights)
    avro, protobuf = in_avro(flights, schema), in_protobuf(flights, schema)
    steps: dict[str, tuple[Step, Values]] = {
        "JsonDecoder": (decoder.decode, values),
        "msgspec": (checked(schema), values),
        "Arrow": (read(wire_schema(schema)), values),
        "AvroDecoder": (avro[0].decode, avro[1]),
        "ProtobufDecoder": (protobuf[0].decode, protobuf[1]),
    }
    for name, spoil in BAD.items():
        some = [spoil(one) if n % ONE_IN == 500 else one for n, one in enumerate(flights)]
        steps[f"JsonDecoder, one in {ONE_IN:,}: {name}"] = decoder.decode, some
    took: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, (step, given) in steps.items():
            took[name].append(microseconds(step, given))
    whole = median(took["JsonDecoder"])
    table = Table("CPU of decoding a flight", "µs a record", "÷ JsonDecoder, all good")
    for name, each in took.items():
        table.add_row(name, f"{median(each):.2f}", f"{median(each) / whole:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
