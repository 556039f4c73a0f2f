"""Looking at offsets in processes of their own: a corrupt batch can abort or hang the client.

One process imports the client and forks for each look; no thread runs in it when it does.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from tidemark.kafka.child import environment
from tidemark.kafka.config import BATCH_BY_BATCH
from tidemark.kafka.corrupt import DIED, UNTOLD
from tidemark.kafka.position import span_of_one
from tidemark.kafka.spans import met_in
from tidemark.model.offsets import Span, TopicPartition

HANG_SECONDS = 30
"""A look that gets no further for so long hangs."""

SECONDS = 120
"""For all looks of one process; what comes later meets UNTOLD at once."""

OF_ITSELF = {
    signal.SIGABRT,
    signal.SIGALRM,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
}
"""What a look dies of that Kafka's client aborts or hangs; any other signal was sent to it."""


Look = Callable[[Span], tuple[int, int | None]]


@contextmanager
def looking(config: Mapping[str, Any], seconds: float = SECONDS) -> Iterator[Look]:
    """A function that says up to where a span can be read, and what reading it meets there.

    None is its end; else it is the first offset of a corrupt batch, or UNTOLD, or DIED. The
    configuration goes through the process's input: it holds secrets.
    """
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    answers, questions = process.stdout, process.stdin
    if answers is None or questions is None:
        raise RuntimeError("a process was started without pipes")

    def ask(question: Any) -> Any:
        print(json.dumps(question), file=questions, flush=True)
        return json.loads(answers.readline())

    def look(span: Span) -> tuple[int, int | None]:
        position, met = ask([span.topic, span.partition, span.start, span.end])
        return position, met

    with process:
        try:
            ask([dict(config), seconds])
            yield look
            questions.close()
        except BaseException:
            process.kill()  # who was told to stop does not wait for a look
            raise


@contextmanager
def probing(
    config: Mapping[str, Any], partition: TopicPartition
) -> Iterator[Callable[[int], int | None]]:
    """A function that says what reading from an offset meets first; None is a record."""
    with looking({**config, **BATCH_BY_BATCH}) as look:

        def met_at(offset: int) -> int | None:
            position, met = look(span_of_one(partition, offset))
            return met if position == offset else None

        yield met_at


def _main() -> None:
    config, seconds = json.loads(sys.stdin.readline())
    deadline = monotonic() + seconds
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a look that dies is no defect to examine
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(_looked(config, Span(*json.loads(line)), deadline)), flush=True)


def _looked(config: Mapping[str, Any], span: Span, deadline: float) -> tuple[int, int | None]:
    """What a fork met."""
    answer, told = os.pipe()
    process = os.fork()
    if process == 0:
        _look(config, span, told)
    os.close(told)
    said, is_in_time = _heard(answer, deadline)
    os.close(answer)
    if not is_in_time:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    position, *met = json.loads(said.splitlines()[-1]) if said else [span.start]
    return position, met[0] if met else DIED if os.WTERMSIG(status) in OF_ITSELF else UNTOLD


def _look(config: Mapping[str, Any], span: Span, told: int) -> None:
    """Tell each position, and at last what was met there; never returns."""

    def tell(*words: int | None) -> None:
        signal.alarm(HANG_SECONDS)
        os.write(told, f"{json.dumps(words)}\n".encode())

    try:
        signal.alarm(HANG_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # DIED says it all
        tell(*met_in(config, span, tell))
    finally:
        os._exit(0)  # nobody waits for threads that never end


def _heard(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """What came until the other end was closed; whether that was in time."""
    said = b""
    while select.select([pipe], [], [], max(0.0, deadline - monotonic()))[0]:
        more = os.read(pipe, 1 << 16)
        if not more:
            return said, True
        said += more
    return said, False


if __name__ == "__main__":
    _main()
