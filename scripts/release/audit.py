"""Ask the package index for known vulnerabilities: `python -m scripts.release.audit [FILE]`.

FILE is requirements.lock by default. pip-audit asks the index's own service for each version; uv
fetches it. Exits with 1 where there are any, and with 0 and a line that says so where nobody could
be asked: that is no good news.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = "pip-audit==2.10.1"
FOUND, CLEAN, SKIPPED = "Found ", "No known vulnerabilities found", "could not be audited"


def main(arguments: list[str]) -> int:
    """Audit the requirements, and tell the outcome."""
    [requirements] = arguments or [str(ROOT / "requirements.lock")]
    command = [
        "tool", "run", "--from", TOOL, "pip-audit", "--requirement", requirements,
        "--no-deps", "--disable-pip", "--progress-spinner", "off",
    ]  # fmt: skip
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run([uv, *command], capture_output=True, text=True, check=False)  # noqa: S603 (our own words)
    return told(done.returncode, done.stdout, done.stderr)


def told(code: int, out: str, err: str) -> int:
    """Print what pip-audit said; its code says neither whether it found or failed."""
    print(out, end="")
    skipped = out.count(SKIPPED)
    if code == 0 and CLEAN in err and not skipped:
        print(CLEAN)
        return 0
    if any(line.startswith(FOUND) for line in err.splitlines()):
        print(err, end="", file=sys.stderr)
        return 1
    last = (err.strip() or "no answer").splitlines()[-1]
    why = f"the index has no answer for {skipped} packages" if skipped else last
    print(f"::warning title=not audited::no vulnerability can be ruled out: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
