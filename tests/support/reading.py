"""Reading a span in a process of its own, which a corrupt batch may abort or keep busy for ever."""

import json
import os
import subprocess
import sys
from dataclasses import astuple

from tidemark.errors import TidemarkError, error_as_dict, error_from_dict
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import Span


def read_apart(
    kafka: str, *spans: Span, then: Span | None = None
) -> tuple[list[int], TidemarkError | None]:
    """The offsets that came, and the error that ended the read.

    `then` is read after that, in the same process, which must live to its end.
    """
    readings = [spans, [then] if then else []]
    question = json.dumps([kafka, *([astuple(one) for one in some] for some in readings)])
    asked = [sys.executable, "-m", __name__, question]
    paths = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    offsets, error = json.loads(done.stdout)
    return offsets, error and error_from_dict(error)


def _main() -> None:
    kafka, *readings = json.loads(sys.argv[1])
    found: list[int] = []
    met = None
    for places in filter(None, readings):
        spans = [Span(*place) for place in places]
        try:
            for records in read_spans({"bootstrap.servers": kafka}, spans):
                found += [record.offset() for record in records]
        except TidemarkError as error:
            met = error_as_dict(error)
    print(json.dumps([found, met]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _main()
