"""What a replay of dead letters did, or would do."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from tidemark.ledger.letters import KeptLetter, replayable
from tidemark.model.dead_letters import LetterFilter
from tidemark.operations.region import Connections, Region
from tidemark.settings.pipeline import Pipeline

Decode = Callable[[list[KeptLetter]], tuple[int, Counter[str]]]
"""Gives how many can be decoded, and why the others can't be."""

BLOCK = 500
"""Dead letters that a dry run decodes together."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    chosen: int
    """Dead letters that are meant and can be replayed, at most the limit."""
    replayed: int
    """They are rows now; in a dry run: they can be decoded, and the transform was not asked."""
    kept: dict[str, int]
    """They fail again; by their reason."""
    not_kept_raw: int
    """They are meant too, but the ledger has no whole record: the target refused their rows, or the
    client could not give their headers."""
    rows: int | None = None
    """That were published; None in a dry run."""
    refused: str | None = None
    """Of a dry run: why a replay would be refused now."""


def dry_run(
    region: Region, connections: Connections, meant: LetterFilter, limit: int
) -> ReplayReport:
    """Decode what would be chosen; the transform is not run."""
    state, decode = region.state(), _decoding(region.pipeline, connections)
    good, failing = 0, Counter[str]()
    with replayable(region.ledger.engine, region.name, meant, limit) as (found, raw):
        while some := list(islice(found.letters, BLOCK)):
            rows, reasons = decode(some)
            good, failing = good + rows, failing + reasons
    return ReplayReport(
        region.name, False, state.epoch, state.head_seq, found.count, good, dict(failing), raw
    )


def _decoding(pipeline: Pipeline, connections: Connections) -> Decode:
    from tidemark.spark.record_decoder import RecordDecoder
    from tidemark.spark.records import decode_block
    from tidemark.spark.specs import read_spec
    from tidemark.spark.stored import record_of

    spec = read_spec(pipeline, connections)
    decoder, schema = RecordDecoder(spec.decoding), spec.schema

    def decoded(letters: list[KeptLetter]) -> tuple[int, Counter[str]]:
        rows, rejected = decode_block(
            decoder, [record_of(one, spec.kafka) for one in letters], schema
        )
        return rows.num_rows, Counter(str(one.reason) for one in rejected)

    return decoded
