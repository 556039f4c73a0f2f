"""`make quick`: every test that needs no server, and no server."""

import subprocess
import sys
from typing import Any

import pytest
from tests.support.documents import ROOT
from tests.support.quick import SERVERS, no_servers


def test_a_quick_session_has_whatever_needs_no_server_and_nothing_else() -> None:
    """Chosen by the fixtures that a test asks for, its fixtures' own among them."""
    asked = [
        "tests/unit/test_plan.py",
        "tests/property",
        "tests/integration/staging/test_target.py",
    ]
    command = [sys.executable, "-m", "pytest", "--quick", "--collect-only", "-qq", *asked]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {line.partition("::")[0].split(":")[0] for line in found.splitlines() if "/" in line}
    assert files == {
        "tests/unit/test_plan.py",
        "tests/property/test_plan.py",
        "tests/property/test_avro.py",
        "tests/property/test_decode.py",
        "tests/property/test_protobuf.py",
        "tests/integration/staging/test_target.py",  # its names are parsed without Postgres
    }


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_a_quick_test_starts_fails_the_test(server: type[Any]) -> None:
    with no_servers(), pytest.raises(pytest.fail.Exception, match="ask for the fixture `stack`"):
        server.start(object.__new__(server))
