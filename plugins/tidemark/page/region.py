"""All that the page of one region shows from the ledger: bounded, however long its past is."""

from dataclasses import dataclass, field
from typing import Any

from tidemark.errors import TidemarkError
from tidemark.ledger.looks import Action, Looks
from tidemark.ledger.past import PastReset, ReasonCount, ShownLetter, Standing, TimedBatch
from tidemark.ledger.timeline import Timeline
from tidemark.model.state import RegionState, Run
from tidemark.operations.region import ledger_of
from tidemark.page.given import Given, connection
from tidemark.page.ledgers import impatient
from tidemark.page.newest_runs import newest
from tidemark.page.picture import drawn
from tidemark.page.seen import SeenRegion

RUNS, CHECKPOINTS, RESETS, LETTERS = 20, 50, 20, 20


@dataclass(slots=True)
class RegionView:
    """A region at one moment; what is not known is empty."""

    standing: Standing | None = None
    state: RegionState | None = None
    problem: TidemarkError | None = None
    picture: str | None = None
    """SVG."""
    runs: list[Run] = field(default_factory=list)
    batches: list[TimedBatch] = field(default_factory=list)
    resets: list[PastReset] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    reasons: list[ReasonCount] = field(default_factory=list)
    letters: list[ShownLetter] = field(default_factory=list)

    @property
    def oldest_seq(self) -> int:
        """The oldest checkpoint that a rewind can go back to."""
        return self.state.oldest_seq if self.state else 0

    @property
    def is_open(self) -> bool:
        """Whether a run is on."""
        return self.standing is not None and self.standing.state == "open"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What rows are made with."""
        return self.state.fingerprint if self.state else {}


def region_view(
    seen: SeenRegion, given: Given, *, is_live: bool = False, shows_records: bool = False
) -> RegionView:
    """What the ledger says; a live look leaves out what changes seldom.

    Records are read only if they may be shown.
    """
    try:
        with ledger_of(connection(given, seen.pipeline.warehouse)) as ledger:
            timeline = Timeline(impatient(ledger).engine)
            if not timeline.ledger_is_there():
                return RegionView()
            state = ledger.known_region(seen.name)
            if state is None:
                return RegionView()
            view = _newest(timeline, seen.name, state)
            if not is_live:
                _add_past(view, timeline, Looks(ledger.engine), seen.name)
            if shows_records:
                view.letters = timeline.newest_letters(seen.name, LETTERS)
            return view
    except TidemarkError as error:
        return RegionView(problem=error)


def _newest(timeline: Timeline, name: str, state: RegionState) -> RegionView:
    standing = next(iter(timeline.standings([name])), None)
    view = RegionView(standing, state, runs=timeline.past_runs(name, RUNS))
    now = Looks(timeline.engine).now()
    found = newest(timeline, name, state.epoch, now, is_over=not view.is_open)
    view.picture = drawn(found) if found.drivers else None
    return view


def _add_past(view: RegionView, timeline: Timeline, looks: Looks, name: str) -> None:
    view.batches = timeline.recent_batches(name, CHECKPOINTS)
    view.resets = timeline.recent_resets(name, RESETS)
    view.actions = looks.actions(name, RESETS)
    view.reasons = timeline.reasons_of_newest(name)
