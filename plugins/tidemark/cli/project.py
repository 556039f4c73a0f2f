"""Where things are: pipelines by region, connections from the environment, the project's code."""

import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.faults import START, ConnectionNowhere, FolderWithoutPipeline, RegionWithoutFile
from tidemark.errors import InvalidSettings, Unreachable

if TYPE_CHECKING:
    from tidemark.runs.job import JobExecutor
    from tidemark.settings.connections import Connection
    from tidemark.settings.pipeline import Pipeline
    from tidemark.spark.specs import JobSpec

log = logging.getLogger(__name__)

LOCAL_ENV = Path(".tidemark") / "env"
"""Where `tidemark local up` leaves the connections of its stack, in the project's folder."""

from_local: set[Path] = set()
"""Files of a local stack that a connection of this command came from."""

PipelineFile = Annotated[
    Path, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file: dags/flights.yaml.")
]
RegionName = Annotated[
    str,
    typer.Argument(
        metavar="REGION", help="A region's name (looked up in --pipelines), or a pipeline file."
    ),
]
PipelinesDir = Annotated[
    Path,
    typer.Option(
        "--pipelines", envvar="TIDEMARK_PIPELINES", help="The folder of the pipeline files."
    ),
]
DAGS = Path("dags")


def find_pipeline(region: str, folder: Path) -> "Pipeline":
    """The pipeline of a region, or of a file.

    Raises:
        InvalidSettings: there is none; names the regions that there are.
    """
    from tidemark.settings.pipeline import Pipeline

    if region.endswith((".yaml", ".yml")) or Path(region).is_file():
        return Pipeline.load(region)
    faults: list[str] = []
    known = {pipeline.region: pipeline for pipeline in pipelines_in(folder, faults)}
    if region not in known:
        files = {fault.partition(":")[0] for fault in faults}
        raise RegionWithoutFile(
            region=region,
            folder=folder,
            known=tuple(sorted(known)),
            unreadable=tuple(sorted(files)),
        )
    return known[region]


def chosen_pipelines(region: str | None, folder: Path, faults: list[str]) -> "list[Pipeline]":
    """The pipeline of this region, else each of the folder; files that are none are in `faults`.

    Raises:
        InvalidSettings: there is none.
    """
    found = [find_pipeline(region, folder)] if region else [*pipelines_in(folder, faults)]
    if not found:
        raise FolderWithoutPipeline(folder=folder, faults=tuple(faults))
    return found


def pipelines_in(folder: Path, faults: list[str]) -> "Iterator[Pipeline]":
    """Every pipeline of the folder; files that are none are added to `faults`."""
    from tidemark.settings.pipeline import Pipeline

    folder = above(folder) or folder if folder == DAGS else folder
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            yield Pipeline.load(path)
        except InvalidSettings as error:
            faults.append(str(error).partition("\n")[0])


def connections_of(pipeline: "Pipeline") -> "dict[str, Connection]":
    """The pipeline's connections by id, from the environment or the local stack.

    Raises:
        InvalidSettings: one is neither in the environment nor in .tidemark/env.
    """
    return {conn_id: connection(conn_id) for conn_id in sorted(pipeline.connections)}


def connection(conn_id: str) -> "Connection":
    """One connection; the environment wins over the local stack.

    Raises:
        InvalidSettings: it is nowhere.
    """
    from tidemark.settings.connections import PREFIX, Connection

    name = PREFIX + conn_id.upper()
    if os.environ.get(name):
        return Connection.from_env(conn_id)
    file = above(LOCAL_ENV)
    local = _environment_of(file) if file else {}
    if file and name in local:
        log.info("connection %s: from %s", conn_id, file)
        from_local.add(file)
        return Connection.from_env(conn_id, local)
    try:
        return Connection.from_env(conn_id, {})
    except InvalidSettings as error:
        raise ConnectionNowhere(
            connection=conn_id,
            cause=str(error),
            file=file or LOCAL_ENV,
            above=None if file else Path.cwd(),
            known=_ids({*os.environ, *local}),
        ) from error


def _ids(variables: Iterable[str]) -> tuple[str, ...]:
    """Of the connections among these variables."""
    from tidemark.settings.connections import PREFIX

    found = (name.removeprefix(PREFIX) for name in variables if name.startswith(PREFIX))
    return tuple(sorted(map(str.lower, found)))


def whence(error: Exception) -> str:
    """Where nothing listens and a local stack is meant: which, and how to start it. Else empty."""
    refused = isinstance(error, Unreachable) and "connection refused" in str(error).lower()
    if not from_local or not refused:
        return ""
    files = ", ".join(map(str, sorted(from_local)))
    return f"; if you mean the local stack of {files}: {START}"


def above(path: Path) -> Path | None:
    """The path in this folder, else in the nearest one above that has it and that we own."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        found = folder / path
        if found.exists() and (folder == here or found.stat().st_uid == os.getuid()):
            return path if folder == here else found
    return None


def _environment_of(file: Path) -> dict[str, str]:
    """The variables of a local stack's file."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    words = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def started_spark(spec: "JobSpec") -> "JobExecutor":
    """The executor of a member's batches.

    Spark costs a second to import: it is only once there is something to read.
    """
    from tidemark.spark.executor import spark_executor

    return spark_executor(spec)


def prepare_spark(pipeline: "Pipeline") -> None:
    """Transforms of the pipeline's project can be imported, here and in Spark's workers.

    Spark will start where the pipeline's Spark connection says, and here if it is the default one
    and there is none.

    Raises:
        InvalidSettings: the pipeline names another one, which is nowhere; or it can't be read.
    """
    from tidemark.settings.connections import PREFIX
    from tidemark.settings.sections import SPARK_DEFAULT
    from tidemark.spark.cluster import find_project

    if pipeline.has_code:
        find_project(pipeline.project)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if file := above(LOCAL_ENV):  # with the other logs of the project, and erased with them
        os.environ.setdefault("TIDEMARK_SPARK_LOGS", str(file.resolve().parent / "logs"))
    try:
        spark = connection(pipeline.spark.connection)
    except InvalidSettings:
        if (
            pipeline.spark.connection != SPARK_DEFAULT
            or PREFIX + SPARK_DEFAULT.upper() in os.environ
        ):
            raise
        log.info("connection %s is not known: Spark runs here", SPARK_DEFAULT)
        return
    if spark.host:
        master = f"{spark.host}:{spark.port}" if spark.port else spark.host
        arguments = f"--master {shlex.quote(master)} pyspark-shell"
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", arguments)
        os.environ.setdefault(*spark.to_env())  # for Cluster.of
