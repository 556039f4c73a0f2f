"""Errors on their way out of a Python worker: what was raised there is raised again here.

Between a worker and the driver stands a JVM that passes on nothing but text. So an error of
ours travels as one line of JSON behind a mark that nobody else can know: a token of this
executor. No other text decides anything.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import QueryExecutionException, UnknownException

from tidemark.errors import TidemarkError, error_as_dict, error_from_dict
from tidemark.spark._cause import cause
from tidemark.spark._log_file import named_log_file
from tidemark.spark.errors import JvmEnded, SparkJobFailed, TaskRaised, TransformRaised

# ruff: noqa: TID253 -- imported only once there is something to read


_MAY_PASS = (OSError, MemoryError, Py4JError, QueryExecutionException, UnknownException)
"""What Spark, the machine or the network raises. Everything else that ends a job is an exception
of the transform, or of a function of it in a task: Spark has tried that task again, and a retry
gives it the same records. The next run tries it anew in any case."""

_LOST = "org.apache.spark.SparkException"
_RUNNER = "org.apache.spark.api.python.BasePythonRunner"
"""What throws `_LOST` if a worker's pipe ends; what a worker raised is a PythonException."""


class WorkerError(Exception):
    """A TidemarkError as a Python worker sends it to the driver."""


def new_token() -> str:
    """A mark for the errors of one executor's tasks."""
    return token_hex(16)


@contextmanager
def marked(token: str) -> Iterator[None]:
    """Inside, an error leaves as a line that only `recognised` with this token reads.

    One that is none of ours leaves as JobFailed: it is not the transform's.
    """
    try:
        yield
    except Exception as error:
        ours = (
            error
            if isinstance(error, TidemarkError)
            else TaskRaised(kind=type(error).__name__, cause=str(error))
        )
        raise WorkerError(f"TIDEMARK {token} {json.dumps(error_as_dict(ours))}") from error


def recognised(text: str, token: str) -> TidemarkError | None:
    """The error of ours that a failed job's text carries, if it carries one."""
    found = re.search(rf"TIDEMARK {token} (\{{.*\}})$", text, re.MULTILINE)
    return error_from_dict(json.loads(found[1])) if found else None


def answers(spark: SparkContext) -> bool:
    """Whether Spark's JVM lives: what its death raises in Python can be anything."""
    try:
        spark.statusTracker().getActiveJobsIds()
    except Py4JJavaError:
        return True
    except Exception:
        return False
    return True


def failed(error: Exception, token: str, *, is_jvm_gone: bool = False) -> TidemarkError:
    """The error of ours that says what ended a job; its class says whether a retry may help."""
    if ours := recognised(str(error), token):
        return ours
    if is_jvm_gone:
        return JvmEnded(log=named_log_file())
    if isinstance(error, _MAY_PASS):
        return SparkJobFailed(
            cause=cause(error), log=named_log_file(), is_of_dead_worker=_is_of_dead_worker(error)
        )
    return TransformRaised(cause=cause(error))


def _is_of_dead_worker(error: Exception) -> bool:
    """Whether Spark lost a Python worker that raised nothing, told by what threw in the JVM."""
    try:
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else None
        while thrown is not None:
            frames = thrown.getStackTrace()
            place = frames[0].getClassName() if len(frames) else ""
            if (thrown.getClass().getName(), place.startswith(_RUNNER)) == (_LOST, True):
                return True
            thrown = thrown.getCause()
    except Py4JError:  # the JVM is gone
        return False
    return False
