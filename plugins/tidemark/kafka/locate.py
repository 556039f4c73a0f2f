"""Where a corrupt batch begins and ends: for the error, and before a person leaves it out.

Offsets are looked at in processes of their own, for a corrupt batch can abort or hang the client.
One process imports the client and forks for each look; no thread runs in it when it does.
"""

import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidemark.deadline import Deadline
from tidemark.environment import for_python
from tidemark.errors import CorruptRecord, JobFailed
from tidemark.kafka._corrupt import DIED, UNTOLD, extent
from tidemark.kafka.config import BATCH_BY_BATCH
from tidemark.kafka.errors import BatchUnreadable, CorruptRange, RangeNotLeftOut
from tidemark.kafka.facts import Broker
from tidemark.kafka.spans import met_in
from tidemark.model.offsets import Offsets, Span, TopicPartition

log = logging.getLogger(__name__)


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


Locate = Callable[[Span], tuple[int, int | None]]


@contextmanager
def locating(config: Mapping[str, Any], seconds: float = SECONDS) -> Iterator[Locate]:
    """A function that says up to where a span can be read, and what reading it meets there.

    None is its end; else it is the first offset of a corrupt batch, or UNTOLD, or DIED. The
    configuration goes through the process's input: it holds secrets.
    """
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=for_python(),
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
    with locating({**config, **BATCH_BY_BATCH}) as look:

        def met_at(offset: int) -> int | None:
            position, met = look(Span(*partition, offset, offset + 1))
            return met if position == offset else None

        yield met_at


def _main() -> None:
    config, seconds = json.loads(sys.stdin.readline())
    deadline = Deadline(seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a look that dies is no defect to examine
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(_located(config, Span(*json.loads(line)), deadline)), flush=True)


def _located(config: Mapping[str, Any], span: Span, deadline: Deadline) -> tuple[int, int | None]:
    """What a fork met."""
    answer, told = os.pipe()
    process = os.fork()
    if process == 0:
        _locate(config, span, told)
    os.close(told)
    said, is_in_time = _heard(answer, deadline)
    os.close(answer)
    if not is_in_time:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    position, *met = json.loads(said.splitlines()[-1]) if said else [span.start]
    return position, met[0] if met else DIED if os.WTERMSIG(status) in OF_ITSELF else UNTOLD


def _locate(config: Mapping[str, Any], span: Span, told: int) -> None:
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


def _heard(pipe: int, deadline: Deadline) -> tuple[bytes, bool]:
    """What came until the other end was closed; whether that was in time."""
    said = b""
    while select.select([pipe], [], [], deadline.left)[0]:
        more = os.read(pipe, 1 << 16)
        if not more:
            return said, True
        said += more
    return said, False


TRIES = 3
"""Looks that begin at an offset and get no further: one alone may have died of what lies behind."""


@contextmanager
def located(config: Mapping[str, Any]) -> Iterator[None]:
    """A CorruptRecord that comes out of the block names the range of its batch, and the way on.

    A JobFailed of a worker that died becomes one if a look finds what its spans can't be read for;
    else it comes out as it is. The looks take a few minutes at most.
    """
    try:
        yield
    except CorruptRecord as error:
        if error.topic is None or error.partition is None or error.offset is None:
            raise
        partition = TopicPartition(error.topic, error.partition)
        raise _with_range(config, partition, error.offset, str(error)) from error
    except JobFailed as error:
        if found := _killer(config, error):
            raise found from error
        raise


def confirm_corrupt(config: Mapping[str, Any], ranges: Sequence[Span], ends: Offsets) -> None:
    """The first and the last offset of each range lie in one batch that is corrupt.

    Raises:
        Refused: one of them can be read, they lie in different batches, or Kafka does not answer.
    """
    for span in ranges:
        if fault := _fault(config, span, ends.get(span.topic_partition, span.end)):
            raise fault


def _with_range(
    config: Mapping[str, Any], partition: TopicPartition, offset: int, found: str
) -> CorruptRange:
    log_end = Broker(config).facts([partition.topic]).ends[partition]
    with probing(config, partition) as met_at:
        span = Span(*partition, offset, extent(met_at, offset, log_end))
    return CorruptRange(
        topic=partition.topic, partition=partition.partition, offset=offset, span=span, found=found
    )


def _killer(config: Mapping[str, Any], error: JobFailed) -> CorruptRange | None:
    """What the worker died of, if that is something in Kafka. Raises nothing: `error` stands."""
    if not error.is_of_dead_worker or not error.spans:
        return None
    log.warning("a worker died; other processes look for what it could not read. %s", error)
    try:
        if (where := _first_unreadable(config, error.spans)) is None:
            log.warning("nothing was found that can't be read: the worker died of something else")
            return None
        (topic, number), offset = where
        found = BatchUnreadable(topic=topic, partition=number, offset=offset)
        return _with_range(config, TopicPartition(topic, number), offset, str(found))
    except Exception as fault:
        log.warning("what the worker could not read was not found", exc_info=fault)
        return None


def _first_unreadable(
    config: Mapping[str, Any], spans: Sequence[Span]
) -> tuple[TopicPartition, int] | None:
    """Where the first corrupt batch begins that stops the read of a span.

    It may lie behind the span: the client reads ahead.
    """
    ends = Broker(config).facts(sorted({span.topic for span in spans})).ends
    with locating(config) as look, locating({**config, **BATCH_BY_BATCH}) as look_closely:
        for span in spans:
            partition = span.topic_partition
            log_end = ends.get(partition, span.end)
            behind = min(span.end + 1, log_end)
            near = _stuck_at(look, partition, span.start, behind)
            if near is not None:
                near = _stuck_at(look_closely, partition, near, log_end)
            if near is not None and near < log_end:
                return partition, near
    return None


def _stuck_at(look: Locate, partition: TopicPartition, start: int, end: int) -> int | None:
    """The offset that looks get to and no further, even if they begin there; else None.

    What stops them lies there or, in the same answer of the broker, behind.
    """
    at, tries = start, 0
    while at < end and tries < TRIES:
        position, met = look(Span(*partition, at, end))
        if met in (None, UNTOLD):
            return None
        tries = tries + 1 if position == at else 0
        at = position
    return at


def _fault(config: Mapping[str, Any], span: Span, log_end: int) -> RangeNotLeftOut | None:
    """Why the range is not exactly what can't be read; None if it is, or a part from its start."""
    with probing(config, span.topic_partition) as met_at:
        first, last = met_at(span.start), met_at(span.end - 1)
        after = None if span.end >= log_end else met_at(span.end)
    if first is None or last is None:
        return RangeNotLeftOut(span=span, readable=span.start if first is None else span.end - 1)
    # Behind the log's end nothing can be told: `refuse_ranges_not_due` names the end.
    is_untold = first == UNTOLD or (last == UNTOLD and span.end <= log_end)
    if is_untold or (min(first, last) < 0 and after is not None):
        return RangeNotLeftOut(span=span)
    if last not in (first, UNTOLD, DIED):
        return RangeNotLeftOut(span=span, second=last)
    return None


if __name__ == "__main__":
    _main()
