"""What is asked of ledgers and of Kafka for the pages, by name: it runs in a helper process.

Airflow is not imported here, and its api-server does not import this. What a reset or a rewind
would do is a dry run, which writes nothing.
"""

import json
from collections.abc import Callable
from time import time  # noqa: TID251 - an age is shown, nothing is decided by it
from typing import Any

from tidemark.admin.moment import seq_of
from tidemark.admin.reset import ResetReport, rewind_preview
from tidemark.admin.reset import dry_run as dry_run_to_head
from tidemark.errors import TidemarkError
from tidemark.ledger.timeline import Timeline
from tidemark.model.plain import age
from tidemark.page.html import fitting, page, readable
from tidemark.page.lags import Lag, LagPast, charts, lags, past
from tidemark.page.ledgers import impatient, next_offsets, opened, standings
from tidemark.page.question import PATIENCE, Answer, Given, Question, connections_of
from tidemark.page.region import RegionView, region_view
from tidemark.page.seen import SeenRegion
from tidemark.page.verdict import verdict
from tidemark.protocol.reset import destination
from tidemark.runs.region import region_of
from tidemark.views.group_health import FOREIGN, health_of
from tidemark.views.status import oldest_age

STATEMENT_SECONDS = 20
"""Rows of the target are counted."""


def dry_run(seen: SeenRegion, to: str, given: Given) -> ResetReport:
    """The report of `tidemark reset NAME --to PLACE`, but no record is read from Kafka.

    Raises:
        TidemarkError: it would be refused, or something can't be asked.
    """
    place = destination(to)
    with region_of(seen.pipeline, connections_of(given, seen.pipeline)) as region:
        impatient(region.ledger, STATEMENT_SECONDS)
        region.broker.ping(PATIENCE)
        if place is None:
            return dry_run_to_head(region)[1]
        return rewind_preview(region, seq_of(region, place, counts=False))


Regions = tuple[SeenRegion, ...]


def answer(question: Question, given: Given) -> Answer:
    """The answer, however long it takes.

    Raises:
        TidemarkError: something can't be asked, or it would be refused.
    """
    return ANSWERS[question.name](question.regions, given, **question.args)


def _regions(regions: Regions, given: Given, dag_id: str | None) -> Answer:
    """One line each, the worst first."""
    lines = [
        (seen, ledger.standing, verdict(seen, ledger)) for seen, ledger in standings(regions, given)
    ]
    lines.sort(key=lambda line: (line[2].level.rank, line[0].name))
    return _html("regions.html", lines=lines, dag_id=dag_id)


def _region(
    regions: Regions, given: Given, by_hand: dict[str, list[str]], shows_records: bool
) -> Answer:
    """The page of one region; records of dead letters only if they may be shown."""
    [seen] = regions
    view = region_view(seen, given, shows_records=shows_records)
    newest = [(one, readable) for one in fitting(view.dead_letters)] if shows_records else None
    parts = {"dead_letters": newest, "reasons": view.reasons, "by_hand": by_hand}
    return _html("region.html", **_shown(seen, view), **parts)


def _live(regions: Regions, given: Given, lag: int | None) -> Answer:
    [seen] = regions
    return _html("live.html", **_shown(seen, region_view(seen, given, is_live=True), lag))


def _charts(regions: Regions, given: Given) -> Answer:
    [seen] = regions
    try:
        with opened(seen.pipeline.warehouse, given) as ledger:
            found = past(Timeline(ledger.engine), seen.name) if ledger else LagPast()
            return _json(charts(found))
    except TidemarkError as error:
        return _json({"problem": f"{error.code}: {error}"})


def _now(regions: Regions, given: Given) -> Answer:
    """What Kafka says beside the ledger: lag and drift by partition, members, who holds it up."""
    [seen] = regions
    with region_of(seen.pipeline, connections_of(given, seen.pipeline)) as region:
        impatient(region.ledger)
        region.broker.ping(PATIENCE)
        health = health_of(region)
        oldest = oldest_age(region.broker, health.partitions, int(time() * 1000))
        return _html("now.html", health=health, foreign=FOREIGN, oldest=oldest, seen=seen)


def _dry_run(regions: Regions, given: Given, to: str) -> Answer:
    [seen] = regions
    return _html("dry_run.html", report=dry_run(seen, to, given), to=to, seen=seen)


def _lags(regions: Regions, given: Given) -> Answer:
    """Lag and drift of all regions, and what that makes of their verdicts."""
    answers = {id(seen): ledger for seen, ledger in standings(regions, given)}
    found = []
    for seen, lag in lags(next_offsets(regions, given), given):
        judged = verdict(seen, answers[id(seen)], lag)
        found.append(
            {
                "dag_id": seen.dag_id,
                "region": seen.name,
                "lag": lag.lag,
                "worst": lag.worst,
                "oldest": None if lag.oldest_age is None else age(lag.oldest_age),
                "drifting": lag.drifting,
                "problem": lag.problem,
                "level": judged.level,
                "rank": judged.level.rank,
                "code": judged.code,
                "sentence": judged.sentence,
            }
        )
    return _json(found)


ANSWERS: dict[str, Callable[..., Answer]] = {
    "regions": _regions,
    "region": _region,
    "live": _live,
    "charts": _charts,
    "now": _now,
    "dry_run": _dry_run,
    "lags": _lags,
}


def _shown(seen: SeenRegion, view: RegionView, lag: int | None = None) -> dict[str, Any]:
    return {"seen": seen, "view": view, "verdict": verdict(seen, view.ledger, Lag(lag))}


def _html(template: str, **shown: Any) -> Answer:
    return Answer(page(template, **shown))


def _json(found: Any) -> Answer:
    return Answer(json.dumps(found), "application/json")
