"""Print an Airflow of another version with its parts: `airflow_constraints 3.3.1`.

Airflow's own constraints are what the index held when that version came out, and stand in no
package. So they are resolved here as of that day. `newest` is the newest version of the index, be
it a candidate or a beta.
"""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from packaging.version import Version

INDEX = "https://pypi.org/simple/apache-airflow/"
PROVIDERS = ("apache-kafka", "apache-spark", "postgres", "openlineage")
GRACE = timedelta(days=2)
"""Its parts are uploaded one after the other."""


def main(version: str) -> None:
    """Print what uv makes of that Airflow and its providers, with nothing newer than itself."""
    index = _index()
    if version == "newest":
        version = max(index["versions"], key=Version)
    wanted = [f"apache-airflow=={version}", f"apache-airflow-core=={version}"]
    if Version(version).is_prerelease:
        wanted += ["apache-airflow-task-sdk>=1.0.0rc1"]  # a candidate needs one of its own
    wanted += [f"apache-airflow-providers-{name}" for name in PROVIDERS]
    command = [
        "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--python-version", f"{sys.version_info.major}.{sys.version_info.minor}",
        "--exclude-newer", (released(index, version) + GRACE).isoformat(), "-",
    ]  # fmt: skip
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, *command], input="\n".join(wanted), text=True, check=True)  # noqa: S603 -- our own words


def released(index: dict[str, Any], version: str) -> datetime:
    """When that Airflow was uploaded."""
    wheel = f"apache_airflow-{version}-py3-none-any.whl"
    [found] = [one["upload-time"] for one in index["files"] if one["filename"] == wheel]
    return datetime.fromisoformat(found)


def _index() -> dict[str, Any]:
    """What the index tells of Airflow (PEP 700): its versions, and when each was uploaded."""
    request = Request(INDEX, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urlopen(request, timeout=60) as answer:  # noqa: S310 -- an address of ours
        found: dict[str, Any] = json.load(answer)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
