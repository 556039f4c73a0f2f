"""Whether a folder of DAGs would load in Airflow, and what it costs its scheduler."""

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.errors import InvalidSettings
from tidemark.settings.described import Described, Role

if TYPE_CHECKING:
    from airflow.sdk import DAG


PARSE_SECONDS = 10.0
"""Of CPU, for the whole folder: Airflow parses it again and again."""


def dag_faults(folder: str | Path, *, parse_seconds: float = PARSE_SECONDS) -> list[str]:
    """What is wrong with the DAGs of a folder, one text for each fault; none if all is well.

    Looked at are: imports, pipeline files (the factories read them), whether Airflow can serialize
    each DAG, the time of parsing (CPU seconds), that there is a DAG at all, warnings of
    deprecation, and whether every form allows its own defaults. Of pipelines: that one DAG at a
    time runs a region, one run at a time. Airflow's database is not asked.
    """
    from tidemark.airflow.compat import dag_bag

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bag = dag_bag(folder)
    return list(_faults(bag, Path(folder), time.process_time() - began, parse_seconds))


def _faults(bag: Any, folder: Path, seconds: float, most: float) -> Iterator[str]:
    for file, trace in bag.import_errors.items():
        yield f"{file}: {trace.strip().splitlines()[-1]}"
    if not bag.dags and not bag.import_errors:
        yield f"{folder}: there is no DAG"
    if seconds > most:
        yield (
            f"{folder}: parsing takes {seconds:.1f} s of CPU, allowed are {most:g}: import what is"
            " slow inside functions"
        )
    for file, found in bag.captured_warnings.items():
        yield from (f"{file}: {one}" for one in found)
    dags = [dag for _, dag in sorted(bag.dags.items())]
    for dag in dags:
        yield from _faults_of_form(dag)
        yield from _unserialized(dag)
        yield from _runs_beside_itself(dag)
    yield from _regions_twice(dags)


def _faults_of_form(dag: "DAG") -> Iterator[str]:
    """Airflow looks at the defaults of a DAG with a schedule alone."""
    for name in dag.params:
        param = dag.params.get_param(name)
        try:
            if param.has_value:
                param.resolve()
        except Exception as error:  # whatever the form's schema says of it
            yield f"{dag.dag_id}: param {name}: {str(error).splitlines()[0]}"


def _unserialized(dag: "DAG") -> Iterator[str]:
    """The dag processor writes each DAG down as JSON, from which the scheduler reads it."""
    from tidemark.airflow.compat import serialized_again

    try:
        serialized_again(dag)
    except Exception as error:  # of whatever a DAG author put into it
        yield f"{dag.dag_id}: Airflow can't serialize it: {str(error).splitlines()[0]}"


def _runs_beside_itself(dag: "DAG") -> Iterator[str]:
    """Two runs at once wait for each other, and those of a backfill are refused."""
    if not any(one.role is Role.run for one in _described(dag)):
        return
    if dag.max_active_runs != 1:
        yield (
            f"{dag.dag_id}: max_active_runs is {dag.max_active_runs}, so its runs may wait for each"
            " other: set max_active_runs=1"
        )
    if not hasattr(dag, "allowed_run_types"):
        return  # before Airflow 3.2 no DAG can refuse one
    allowed = dag.allowed_run_types
    if dag.timetable.can_be_scheduled and (not allowed or "backfill" in allowed):
        yield (
            f"{dag.dag_id}: a backfill may be started, whose runs are all refused: set"
            " allowed_run_types to all but backfill"
        )


def _regions_twice(dags: Iterable["DAG"]) -> Iterator[str]:
    """Two DAGs, or two groups of one, that do the same with the same region."""
    found: dict[tuple[Role, str, str], list[str]] = {}
    for dag in dags:
        for one in _described(dag):
            key = one.role, one.pipeline.warehouse, one.pipeline.region
            found.setdefault(key, []).append(dag.dag_id)
    for (role, _, region), dag_ids in found.items():
        if len(dag_ids) > 1:
            places = [f"{dag_id} ({n} times)" if n > 1 else dag_id
                      for dag_id, n in Counter(dag_ids).items()]  # fmt: skip
            yield (
                f"region {region}: {role} stands in {' and in '.join(places)}: a region has one"
                " DAG for each of run, reset and replay"
            )


def _described(dag: "DAG") -> Iterator[Described]:
    """What the tasks of a DAG carry of their pipelines."""
    for task in dag.tasks:
        text = getattr(task, "doc_json", None)
        try:
            if isinstance(text, str) and (one := Described.from_json(text)):
                yield one
        except InvalidSettings:  # another program's, or another version's
            continue
