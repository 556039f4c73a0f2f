"""A child of a task: secrets go to its environment alone, never to argv, XCom or the log."""

import os
import sys
from pathlib import Path

from tidemark.airflow.compat import conf
from tidemark.airflow.credentials import resolve, resolved
from tidemark.environment import is_airflows
from tidemark.settings.pipeline import Pipeline
from tidemark.tokens.callbacks import LISTED, listed_in_airflow

PACKAGE = Path(__file__).resolve().parents[1]


def secrets(pipeline: Pipeline) -> dict[str, str]:
    """The pipeline's connections, as a driver reads them from its environment.

    And the token callbacks that they may name: a driver has nothing of Airflow's configuration.
    """
    found = [*resolve(pipeline).values(), resolved(pipeline.spark.connection)]
    callbacks = ",".join(sorted(listed_in_airflow(conf)))
    return dict(one.to_env() for one in found) | {LISTED: callbacks}


def emptied() -> dict[str, str]:
    """Airflow's own configuration, emptied: its keys and logins are nothing for a transform.

    The hook of Spark's provider can set what a child inherits, and take nothing away.
    """
    return dict.fromkeys(filter(is_airflows, os.environ), "")


def python(pipeline: Pipeline) -> dict[str, str]:
    """This interpreter, its own spark-submit, the project, if code of it runs, and this package."""
    project = str(pipeline.project) if pipeline.has_code else ""
    roots = [project, str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    commands = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, roots)),
        "PATH": os.pathsep.join(commands),
    }
