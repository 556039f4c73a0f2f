"""Whether a folder of DAGs would load in Airflow, and what it costs its scheduler."""

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG


PARSE_SECONDS = 10.0
"""Of CPU, for the whole folder: Airflow parses it again and again."""


def dag_faults(folder: str | Path, *, parse_seconds: float = PARSE_SECONDS) -> list[str]:
    """What is wrong with the DAGs of a folder, one text for each fault; none if all is well.

    Looked at are: imports, pipeline files (the factories read them), the time of parsing (CPU
    seconds), that there is a DAG at all, warnings of deprecation, and whether every form allows its
    own defaults. Airflow's database is not asked.
    """
    from airflow.dag_processing.dagbag import DagBag

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bag = DagBag(dag_folder=folder, safe_mode=False)
    return list(_faults(bag, Path(folder), time.process_time() - began, parse_seconds))


def _faults(bag: "DagBag", folder: Path, seconds: float, most: float) -> Iterator[str]:
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
    for _, dag in sorted(bag.dags.items()):
        yield from _faults_of_form(dag)


def _faults_of_form(dag: "DAG") -> Iterator[str]:
    """Airflow looks at the defaults of a DAG with a schedule alone."""
    for name in dag.params:
        param = dag.params.get_param(name)
        try:
            if param.has_value:
                param.resolve()
        except Exception as error:  # whatever the form's schema says of it
            yield f"{dag.dag_id}: param {name}: {str(error).splitlines()[0]}"
