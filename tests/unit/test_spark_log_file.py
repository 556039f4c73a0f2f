"""Spark's words: whatever ends when, a run in which all is well says none of them."""

import os
import subprocess
import sys
from pathlib import Path

from tidemark import __file__ as package

LATE = """
import atexit, logging
from pathlib import Path
atexit.register(lambda: logging.getLogger("py4j").warning("a connection is closed"))
from tidemark.spark._log_file import _take_loggers, log_file
_take_loggers(log_file())
print(log_file().parent)
"""


def test_what_py4j_says_behind_the_end_of_its_file_is_said_nowhere(tmp_path: Path) -> None:
    known = {name: one for name, one in os.environ.items() if not name.startswith("TIDEMARK")}
    paths = [str(Path(package).parents[1]), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        env=known | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert not Path(done.stdout.strip()).exists()
