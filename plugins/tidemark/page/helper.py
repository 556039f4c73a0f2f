"""A helper of Airflow's api-server: a process that asks ledgers and Kafka, and may die of it.

It reads questions from stdin, a line each, connections in them, and writes an answer to stdout.
Who starts it kills it when an answer takes too long: then a pattern that takes for ever, a client
library that aborts, or a page that fills the memory has hurt nobody else.
"""

import logging
import os
import resource
import signal
import sys
from threading import Thread
from typing import BinaryIO

from tidemark.errors import TidemarkError
from tidemark.kafka import description
from tidemark.page.answers import answer
from tidemark.page.errors import HelperFailed
from tidemark.page.question import answered, heard

MOST_MEMORY = 4 * 2**30
"""Bytes of addresses; a look needs a tenth."""

log = logging.getLogger(__name__)


def main() -> None:
    """Answer until stdin ends, as it does with the api-server."""
    logging.basicConfig(level=logging.WARNING)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    description.ask_in_this_process()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin.buffer:
        Thread(target=_answer, args=(line, out), daemon=True).start()
    os._exit(0)  # in the middle of an answer too: nobody waits for it


def _answer(line: bytes, out: BinaryIO) -> None:
    try:
        found = answered(answer(*heard(line)))
    except TidemarkError as error:
        found = answered(error)
    except Exception as error:
        log.exception("a look failed")
        found = answered(HelperFailed(cause=type(error).__name__))
    out.write(found)
    out.flush()
