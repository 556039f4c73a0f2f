"""Print an Airflow of another version with its parts: `airflow_constraints 3.3.1`.

Airflow's own constraints are what the index held when that version came out, and stand in no
package. So they are resolved here as of that day.
"""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

INDEX = "https://pypi.org/simple/apache-airflow/"
PROVIDERS = ("apache-kafka", "apache-spark", "postgres", "openlineage")
GRACE = timedelta(days=2)
"""Its parts are uploaded one after the other."""


def main(version: str) -> None:
    """Print what uv makes of that Airflow and its providers, with nothing newer than itself."""
    wanted = [f"apache-airflow=={version}"]
    wanted += [f"apache-airflow-providers-{name}" for name in PROVIDERS]
    command = [
        "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--python-version", f"{sys.version_info.major}.{sys.version_info.minor}",
        "--exclude-newer", (released(version) + GRACE).isoformat(), "-",
    ]  # fmt: skip
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, *command], input="\n".join(wanted), text=True, check=True)  # noqa: S603 -- our own words


def released(version: str) -> datetime:
    """When that Airflow was uploaded: the index says so (PEP 700)."""
    request = Request(INDEX, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urlopen(request, timeout=60) as answer:  # noqa: S310 -- an address of ours
        files = json.load(answer)["files"]
    wheel = f"apache_airflow-{version}-py3-none-any.whl"
    [found] = [one["upload-time"] for one in files if one["filename"] == wheel]
    return datetime.fromisoformat(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
