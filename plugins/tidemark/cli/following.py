"""Following a run: the bar of `tidemark run` shows how far the ledger is."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from tidemark.cli.progress import Move
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.ledger.ledger import Ledger
    from tidemark.operations.region import Connections
    from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


@contextmanager
def followed(pipeline: "Pipeline", connections: "Connections", move: Move) -> Iterator[None]:
    """While the block runs, the bar shows how far the ledger is; only for a person."""
    if not sys.stderr.isatty():
        yield
        return
    ended = Event()
    thread = Thread(target=_follow, args=(pipeline, connections, move, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LOOK_SECONDS)


def _follow(pipeline: "Pipeline", connections: "Connections", move: Move, ended: Event) -> None:
    from tidemark.operations.region import region_of

    with region_of(pipeline, connections) as region:
        while not ended.wait(LOOK_SECONDS):
            try:
                _show_progress(region.ledger, pipeline.region, move)
            except TidemarkError as error:  # asked again a second later
                log.debug("progress: %s", error)


def _show_progress(ledger: "Ledger", region: str, move: Move) -> None:
    """Show how many of the open run's offsets are published."""
    from tidemark.model.facts import backlog

    state = ledger.region_state(region)
    run = ledger.run_at(region, state.epoch) if state else None
    if state is None or run is None or run.state != "open":
        return
    offsets = ledger.merged_checkpoint(region).offsets
    left = backlog(offsets, ledger.target_offsets(region, state.epoch))
    move(run.backlog - left, run.backlog, f"{region}: epoch {state.epoch}, batch {state.head_seq}")
