"""A drain through the real spark-submit, as the Airflow operator starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.process import PROJECT
from tests.faults.region import FaultRegion
from tests.support.processes import family, kill, stopped
from tests.support.waiting import until

from tidemark import failpoints

SECONDS = 600
BIN = Path(sys.executable).parent
MASTER = "local[2,3]"
LOG4J = PROJECT / "plugins" / "tidemark" / "spark" / "log4j2.properties"


@dataclass(frozen=True, slots=True)
class Submitted:
    """spark-submit with the driver, the JVM and the Python workers below it."""

    process: "subprocess.Popen[bytes]"
    log: Path
    _left: list[psutil.Process] = field(default_factory=list)

    def end(self) -> int:
        """Wait for its end; the driver's exit code."""
        return self.process.wait(SECONDS)

    def kill_driver(self) -> None:
        """SIGKILL to the Python process that runs jobs/drain.py, and to no other."""
        self._left.extend(self.family())  # orphans are not found afterwards
        [driver] = [process for process in self._left if _is_driver(process)]
        driver.kill()

    def kill(self) -> None:
        """Nothing of it runs."""
        for process in [*self._left, *self.family()]:
            kill(process)
        self.process.kill()
        self.process.wait()

    def family(self) -> list[psutil.Process]:
        """Whatever it started and still runs."""
        return family(self.process.pid)[1:]

    def wait_until_stopped(self) -> psutil.Process:
        """Return the driver, or the Python worker, that has reached its `stop`."""
        until(lambda: stopped(self.family()) or self.process.poll() is not None, SECONDS)
        found = stopped(self.family())
        assert found, self.log.read_text()
        return found[0]


@contextmanager
def submitted(
    region: FaultRegion, run_id: str, failpoint: str, folder: Path, name: str = "submitted"
) -> Iterator[Submitted]:
    """A drain of an open run with a failpoint switched on; none of its processes is left after."""
    folder.mkdir(exist_ok=True)
    pipeline, log = folder / "pipeline.yaml", folder / "submit.log"
    pipeline.write_text(json.dumps(region.file))  # JSON is YAML
    spark: list[str | Path] = [BIN / "spark-submit", "--master", MASTER]
    spark += ["--conf", "spark.log.level=WARN"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*spark, PROJECT / "jobs" / "drain.py", pipeline],
            env=os.environ
            | _environment(region, run_id)
            | _own_words(folder / "spark.log")
            | {failpoints.VARIABLE: failpoint, "TIDEMARK_MEMBER_NAME": name},
            cwd=folder,
            stdout=output,
            stderr=output,
        )
    submit = Submitted(process, log)
    try:
        yield submit
    finally:
        submit.kill()


def _environment(region: FaultRegion, run_id: str) -> dict[str, str]:
    secrets = dict(connection.to_env() for connection in region.connections.values())
    return secrets | {
        "TIDEMARK_RUN_ID": run_id,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "plugins")]),
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _own_words(words: Path) -> dict[str, str]:
    options = f"-Dlog4j2.configurationFile={LOG4J.as_uri()} -Dtidemark.spark.log={words}"
    return {
        "TIDEMARK_SPARK_LOG": str(words),
        "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {options}",
    }


def _is_driver(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        return "java" not in words[0] and any(word.endswith("jobs/drain.py") for word in words)
    return False
