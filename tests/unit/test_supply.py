"""S24: what a release says of its parts, and what an audit says of itself."""

import json
from pathlib import Path

import pytest
from scripts.release import audit, bill

ROOT = Path(__file__).resolve().parents[2]


def test_a_bill_names_each_package_with_its_files_and_its_licence(tmp_path: Path) -> None:
    assert bill.main([str(tmp_path)]) == 0
    found = json.loads((tmp_path / "sbom.cdx.json").read_text())
    constraints = (ROOT / "requirements.txt").read_text().splitlines()
    pins = [line for line in constraints if line[:1].isalnum()]
    assert [f"{one['name']}=={one['version']}" for one in found["components"]] == pins
    assert all(one["externalReferences"][0]["hashes"] for one in found["components"])
    [confluent] = [one for one in found["components"] if one["name"] == "confluent-kafka"]
    assert "Apache" in confluent["licenses"][0]["license"]["name"]
    assert "| confluent-kafka |" in (tmp_path / "licences.md").read_text()


SKIPPED = """
idna Dependency not found on PyPI and could not be audited: idna (3.20)
rich Dependency not found on PyPI and could not be audited: rich (15.1)
"""


@pytest.mark.parametrize(
    ("code", "out", "err", "exit_code", "word"),
    [
        (0, "", "No known vulnerabilities found\n", 0, "No known"),
        (0, SKIPPED, "No known vulnerabilities found\n", 0, "no answer for 2 packages"),
        (1, SKIPPED, "Found 1 known vulnerability in 1 package\n", 1, ""),
        (1, "", "Traceback\nConnectionError: the index\n", 0, "not audited"),
        (2, "", "", 0, "no vulnerability can be ruled out: no answer"),
        (0, "", "", 0, "not audited"),
    ],
)
def test_an_audit_that_asked_nobody_says_so(
    code: int, out: str, err: str, exit_code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.told(code, out, err) == exit_code
    assert word in capsys.readouterr().out
