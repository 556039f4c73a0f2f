"""The pages: who may read a DAG sees its region; nothing is changed here.

Each route is a coroutine, and each look is made by `asking`: no thread of the server, and no
session of its database, waits for Kafka, Postgres or a log.
"""

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from tidemark.errors import TidemarkError
from tidemark.page.asking import (
    Busy,
    airflow,
    airflow_log,
    airflow_shared,
    ask_ledgers,
    ask_ledgers_alone,
)
from tidemark.page.failure import failure, may_read_logs, may_try_reset, newest_by_hand
from tidemark.page.html import HEADERS, STATIC, page, static
from tidemark.page.question import Answer, Question
from tidemark.page.regions import kept, seen_regions
from tidemark.page.seen import SeenRegion

DRY_RUN_SECONDS = 25
AGAIN_SECONDS = 3
"""After which one who found all of ours busy may come again."""

_TOO_MANY = "Too many look at this moment, or what they look at does not answer."

User = Annotated[Any, Depends(get_user)]

app = FastAPI(
    title="Tidemark", dependencies=[Depends(get_user)], docs_url=None, redoc_url=None,
    openapi_url=None,
)  # fmt: skip


async def _regions(user: User) -> list[SeenRegion]:
    known = await airflow_shared(kept)
    return await airflow(lambda _: seen_regions(user, known))


Regions = Annotated[list[SeenRegion], Depends(_regions)]


async def _of_dag(regions: Regions, dag_id: str) -> list[SeenRegion]:
    return [seen for seen in regions if any(dag_id in dags for dags in seen.dags.values())]


OfDag = Annotated[list[SeenRegion], Depends(_of_dag)]


async def _region(found: OfDag, region: str | None = None) -> SeenRegion:
    """One that is not there and one that the user may not see are told alike."""
    for seen in found:
        if region in (None, seen.name):
            return seen
    raise HTTPException(404, "No DAG that you may read has such a region")


TheRegion = Annotated[SeenRegion, Depends(_region)]


@app.exception_handler(TidemarkError)
async def _problem(request: Request, error: TidemarkError) -> Response:
    """What can't be asked, where a part of a page was wanted."""
    if request.url.path.endswith(("/charts", "/lags")):
        return JSONResponse({"problem": f"{error.code}: {error}"}, 200, HEADERS)
    body = page("problem.html", code=error.code, text=str(error), remedy=error.hint)
    return HTMLResponse(body, 200, HEADERS)


@app.exception_handler(Busy)
async def _busy(request: Request, error: Busy) -> Response:
    headers = {**HEADERS, "Retry-After": str(AGAIN_SECONDS)}
    body = page("problem.html", code="BUSY", text=_TOO_MANY, remedy="Try again in some seconds.")
    return HTMLResponse(body, 503, headers)


@app.get("/")
async def all_regions(regions: Regions) -> Response:
    """One line each, the worst first."""
    return await _answer("regions", regions, dag_id=None)


@app.get("/dag")
async def of_dag(found: OfDag, user: User, dag_id: str, region: str | None = None) -> Response:
    """The page of a DAG's region, or of its regions; records are for who may read its logs."""
    if region is None and len(found) != 1:
        return await _answer("regions", found, dag_id=dag_id)
    seen = await _region(found, region)
    by_hand = await airflow(lambda one: newest_by_hand(seen, one))
    shows_records = await airflow(
        lambda _: any(may_read_logs(one, user) for one in seen.running_dags)
    )
    return await _answer("region", [seen], by_hand=by_hand, shows_records=shows_records)


@app.get("/dag/live")
async def live(seen: TheRegion, lag: int | None = None) -> Response:
    """What changes while a run is on; `lag` is what Kafka has told of it, which may be below 0."""
    return await _answer("live", [seen], lag=lag)


@app.get("/dag/charts")
async def of_charts(seen: TheRegion) -> Response:
    """What the charts are drawn from."""
    return await _answer("charts", [seen])


@app.get("/dag/failure")
async def of_failure(seen: TheRegion, user: User) -> Response:
    """Why the newest run failed, for those who may read its logs."""
    run = seen.last_run
    if run is None or run.state != "failed":
        return _html("failure.html", run=run, found=None)
    if not await airflow(lambda _: may_read_logs(run.dag_id, user)):
        raise HTTPException(403, "You may not read this DAG's logs")
    found = await airflow_log(("failure", run), lambda one: failure(run, one))
    return _html("failure.html", run=run, found=found)


@app.get("/dag/now")
async def now(seen: TheRegion) -> Response:
    """What Kafka says beside the ledger: lag and drift by partition, members, who holds it up."""
    return await _answer("now", [seen])


@app.post("/dag/dry-run")
async def of_dry_run(
    seen: TheRegion, user: User, to: Annotated[str, Query(max_length=40)]
) -> Response:
    """What a reset to this place would do, for those who may start it; one of a region."""
    if not await airflow(lambda _: any(may_try_reset(one, user) for one in seen.reset_dags)):
        raise HTTPException(403, "You may not start a DAG that resets this region")
    question = Question("dry_run", (seen,), {"to": to})
    place = seen.pipeline.warehouse, seen.name
    return _response(await ask_ledgers_alone(place, question, DRY_RUN_SECONDS))


@app.get("/lags")
async def of_lags(regions: Regions) -> Response:
    """Lag and drift of all regions, and what that makes of their verdicts."""
    return await _answer("lags", regions)


@app.get("/static/{name}")
async def of_static(name: str) -> Response:
    """A file that the pages load."""
    if name not in STATIC:
        raise HTTPException(404)
    return Response(
        static(name), media_type=STATIC[name], headers={"Cache-Control": "private, max-age=3600"}
    )


async def _answer(name: str, regions: list[SeenRegion], **args: Any) -> Response:
    return _response(await ask_ledgers(Question(name, tuple(regions), args)))


def _response(found: Answer) -> Response:
    return Response(found.body, media_type=found.media_type, headers=HEADERS)


def _html(template: str, **shown: Any) -> HTMLResponse:
    return HTMLResponse(page(template, **shown), headers=HEADERS)
