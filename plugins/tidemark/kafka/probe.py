"""Probing offsets in processes of their own: a corrupt batch can abort or hang the client.

One process imports the client and forks for each probe; no thread runs in it when it does.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidemark.kafka.corrupt import DIED
from tidemark.kafka.spans import met_at
from tidemark.model.offsets import TopicPartition

SECONDS = 30
"""A probe that takes longer hangs."""


@contextmanager
def probing(
    config: Mapping[str, Any], partition: TopicPartition
) -> Iterator[Callable[[int], int | None]]:
    """A function that says what reading from an offset meets first.

    None is a record, or the end of the log; else it is the first offset of a corrupt batch, or
    UNTOLD, or DIED. The configuration goes through the process's input: it holds secrets.
    """
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    answers, questions = process.stdout, process.stdin
    if answers is None or questions is None:
        raise RuntimeError("a process was started without pipes")

    def ask(question: Any) -> Any:
        print(json.dumps(question), file=questions, flush=True)
        return json.loads(answers.readline())

    with process:
        ask([dict(config), *partition])
        yield ask
        questions.close()


def _main() -> None:
    config, topic, partition = json.loads(sys.stdin.readline())
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(_probed(config, TopicPartition(topic, partition), json.loads(line)), flush=True)


def _probed(config: Mapping[str, Any], partition: TopicPartition, offset: int) -> str:
    """What a fork met, as JSON."""
    answer, told = os.pipe()
    process = os.fork()
    if process == 0:
        os.write(told, json.dumps(met_at(config, partition, offset)).encode())
        os._exit(0)  # nobody waits for threads that never end
    os.close(told)
    found = os.read(answer, 100) if select.select([answer], [], [], SECONDS)[0] else b""
    os.close(answer)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return found.decode() or json.dumps(DIED)


if __name__ == "__main__":
    _main()
