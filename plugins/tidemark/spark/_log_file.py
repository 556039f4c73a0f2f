"""Where Spark's own words go: into a file, beside the log of the run.

What Spark's JVM and its Python workers write is for a developer of Spark: a worker whose pipe was
closed early prints a traceback in a run where all is well.
"""

import atexit
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

from pyspark import SparkContext, accumulators
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger

# ruff: noqa: TID253 -- imported only once there is something to read


VARIABLE = "TIDEMARK_SPARK_LOG"
FOLDER = "TIDEMARK_SPARK_LOGS"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started the JVM, and this process as its child."""
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


_named: list[Path] = []
"""Files that an error has named: they stay."""


def log_file() -> Path:
    """The file, TIDEMARK_SPARK_LOG or one of this process in the folder of such, or in its own."""
    name = f"tidemark-spark-{os.getpid()}.log"
    return Path(os.environ.get(VARIABLE) or Path(os.environ.get(FOLDER) or own_folder()) / name)


def named_log_file() -> str:
    """The file, for an error that names it: it outlives this process."""
    _named.append(log_file())
    return str(_named[-1])


@cache
def own_folder() -> str:
    """A folder that no other account can reach; it goes with this process if all is well."""
    folder = tempfile.mkdtemp(prefix="tidemark-spark-")
    atexit.register(_forget, folder, os.getpid())
    return folder


def _forget(folder: str, owner: int) -> None:
    if os.getpid() == owner and not any(one.parent == Path(folder) for one in _named):
        for logger in _loggers():  # objects of py4j log when the interpreter ends
            logger.handlers[:] = [logging.NullHandler()]
        shutil.rmtree(folder, ignore_errors=True)


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger("py4j"), *map(PySparkLogger.getLogger, QUERY_LOGGERS)]


def start_jvm() -> None:
    """The JVM runs; what it and its workers write from here on stands in the file.

    Idempotent. Where spark-submit started it, what its log4j writes is spark-submit's to configure.
    """
    path = log_file()
    _take_loggers(path)
    if SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
        _take_stderr(SparkContext._jvm, path)
    elif SparkContext._gateway is None:
        with path.open("ab") as words:
            SparkContext._ensure_initialized(gateway=_launched(words))


def _launched(words: IO[bytes]) -> Any:
    """The gateway of a new JVM.

    A signal that ends the launch ends the JVM: pyspark forgets it, and it would stay for ever.
    """
    import psutil

    driver = psutil.Process()
    before = driver.children()
    try:
        return launch_gateway(popen_kwargs={"stdout": words, "stderr": words})
    except BaseException:
        for child in driver.children():
            if child not in before:
                child.kill()
                child.wait()
        raise


def _take_loggers(path: Path) -> None:
    """What Python's side of Spark logs with tracebacks stands in the file too.

    py4j logs each call that a signal or the JVM's death interrupts, some by no logger of its own;
    pyspark each exception that has a query's context. The server of its accumulators prints what
    the JVM's death makes of its request.
    """
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _log_request
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_not_of_py4j)
    for logger in _loggers():
        if not any(isinstance(handler, logging.FileHandler) for handler in logger.handlers):
            logger.propagate = False
            logger.handlers.clear()
            logger.addHandler(logging.FileHandler(path, delay=True))


def _log_request(server: Any, request: Any, address: Any) -> None:
    logging.getLogger("py4j").warning("accumulators of %s", address, exc_info=True)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _take_stderr(jvm: Any, path: Path) -> None:
    """Python workers write to System.err as it is when the first of them starts."""
    file = jvm.java.io.FileOutputStream(str(path), True)
    jvm.java.lang.System.setErr(jvm.java.io.PrintStream(file, True))
