"""The pages: who may read a DAG sees its region; nothing is changed here."""

from time import time  # noqa: TID251 - an age is shown, nothing is decided by it
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from tidemark.errors import TidemarkError
from tidemark.page.charts import charts, past
from tidemark.page.credentials import PATIENCE, connection, connections_of
from tidemark.page.dry_run import dry_run
from tidemark.page.failure import failure, may_read_logs
from tidemark.page.html import HEADERS, STATIC, age, page, static
from tidemark.page.lags import lags
from tidemark.page.ledgers import impatient, next_offsets, standings
from tidemark.page.letters import readable, shown
from tidemark.page.region import RegionView, region_view
from tidemark.page.regions import kept, seen_regions
from tidemark.page.seen import SeenRegion
from tidemark.page.told import told
from tidemark.page.verdict import Verdict, verdict

app = FastAPI(
    title="Tidemark", dependencies=[Depends(get_user)], docs_url=None, redoc_url=None,
    openapi_url=None,
)  # fmt: skip


def _regions(user: Annotated[Any, Depends(get_user)], session: SessionDep) -> list[SeenRegion]:
    return seen_regions(user, kept(session))


Regions = Annotated[list[SeenRegion], Depends(_regions)]


def _of_dag(regions: Regions, dag_id: str) -> list[SeenRegion]:
    return [seen for seen in regions if dag_id in seen.dags.values()]


OfDag = Annotated[list[SeenRegion], Depends(_of_dag)]


def _region(found: OfDag, region: str | None = None) -> SeenRegion:
    """One that is not there and one that the user may not see are told alike."""
    for seen in found:
        if region in (None, seen.name):
            return seen
    raise HTTPException(404, "No DAG that you may read has such a region")


TheRegion = Annotated[SeenRegion, Depends(_region)]


@app.exception_handler(TidemarkError)
def _problem(request: Request, error: TidemarkError) -> Response:
    """What can't be asked, where a part of a page was wanted."""
    body = page("problem.html", code=error.code, text=str(error), remedy=error.hint)
    return HTMLResponse(body, 200, HEADERS)


@app.get("/")
def all_regions(regions: Regions) -> HTMLResponse:
    """One line each, the worst first."""
    return _list_of(regions, None)


@app.get("/dag")
def of_dag(
    found: OfDag, session: SessionDep, dag_id: str, region: str | None = None
) -> HTMLResponse:
    """The page of a DAG's region, or of its regions."""
    if region is None and len(found) != 1:
        return _list_of(found, dag_id)
    seen = _region(found, region)
    view = region_view(seen)
    letters = [(shown(one), readable) for one in view.letters]
    parts = {"letters": letters, "reasons": view.reasons, "reset": told(seen, session)}
    return _html("region.html", **_shown(seen, view), **parts)


@app.get("/dag/live")
def live(seen: TheRegion, lag: Annotated[int | None, Query(ge=0)] = None) -> HTMLResponse:
    """What changes while a run is on; `lag` is what Kafka has told of it."""
    return _html("live.html", **_shown(seen, region_view(seen, is_live=True), lag))


@app.get("/dag/charts")
def of_charts(seen: TheRegion) -> Response:
    """What the charts are drawn from."""
    from tidemark.ledger.timeline import Timeline
    from tidemark.operations.region import ledger_of

    try:
        with ledger_of(connection(seen.pipeline.warehouse)) as ledger:
            timeline = Timeline(impatient(ledger).engine)
            offsets = timeline.next_offsets([seen.name]).get(seen.name, {})
            return JSONResponse(charts(past(timeline, seen.name, offsets)), headers=HEADERS)
    except TidemarkError as error:
        return JSONResponse({"problem": f"{error.code}: {error}"}, headers=HEADERS)


@app.get("/dag/failure")
def of_failure(
    seen: TheRegion, user: Annotated[Any, Depends(get_user)], session: SessionDep
) -> HTMLResponse:
    """Why the newest run failed, for those who may read its logs."""
    run = seen.last_run
    if run is None or run.state != "failed":
        return _html("failure.html", run=run, found=None)
    if not may_read_logs(run.dag_id, user):
        raise HTTPException(403, "You may not read this DAG's logs")
    return _html("failure.html", run=run, found=failure(run, session))


@app.get("/dag/now")
def now(seen: TheRegion) -> HTMLResponse:
    """What Kafka says beside the ledger: lag and drift by partition, members, who holds it up."""
    from tidemark.operations.health import health_of
    from tidemark.operations.region import region_of
    from tidemark.operations.unread import oldest_age

    with region_of(seen.pipeline, connections_of(seen.pipeline)) as region:
        impatient(region.ledger)
        region.broker.ping(PATIENCE)
        health = health_of(region)
        oldest = oldest_age(region.broker, health.partitions, int(time() * 1000))
        return _html("now.html", health=health, oldest=oldest, seen=seen)


@app.get("/dag/dry-run")
def of_dry_run(seen: TheRegion, to: Annotated[str, Query(max_length=40)]) -> HTMLResponse:
    """What a reset to this place would do."""
    return _html("dry_run.html", report=dry_run(seen, to), to=to, seen=seen)


@app.get("/lags")
def of_lags(regions: Regions) -> JSONResponse:
    """Lag and drift of all regions, and what that makes of their verdicts."""
    answers = {id(seen): answer for seen, answer in standings(regions)}
    found = []
    for seen, lag in lags(next_offsets(regions)):
        answer = answers[id(seen)]
        judged = verdict(seen, answer.standing, answer.problem, lag.lag)
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
    return JSONResponse(found, headers=HEADERS)


@app.get("/static/{name}")
def of_static(name: str) -> Response:
    """A file that the pages load."""
    if name not in STATIC:
        raise HTTPException(404)
    return Response(
        static(name), media_type=STATIC[name], headers={"Cache-Control": "private, max-age=3600"}
    )


def _list_of(regions: list[SeenRegion], dag_id: str | None) -> HTMLResponse:
    lines = [
        (seen, answer.standing, verdict(seen, answer.standing, answer.problem))
        for seen, answer in standings(regions)
    ]
    lines.sort(key=lambda line: (line[2].level.rank, line[0].name))
    return _html("regions.html", lines=lines, dag_id=dag_id)


def _shown(seen: SeenRegion, view: RegionView, lag: int | None = None) -> dict[str, Any]:
    judged: Verdict = verdict(seen, view.standing, view.problem, lag)
    return {"seen": seen, "view": view, "verdict": judged}


def _html(template: str, **shown: Any) -> HTMLResponse:
    return HTMLResponse(page(template, **shown), headers=HEADERS)
