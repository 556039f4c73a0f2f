"""Draw a region's newest runs as SVG, from its ledger: `python -m scripts.demo.run_picture NAME`.

A lane is a driver; a box is a batch that it had a part in, pale if a rewind took it back. The
picture in the README is made by this from the ledger that `make demo` leaves:
`python -m scripts.demo.run_picture flights > docs/run.svg`, before `make down`.
"""

import sys

from tidemark.cli.project import connection
from tidemark.ledger.queries import LedgerQueries
from tidemark.ledger.timeline import Timeline
from tidemark.page.region import STYLE, drawn, newest
from tidemark.runs.region import ledger_of
from tidemark.settings.connections import Connection


def picture(warehouse: Connection, region: str) -> str:
    """The SVG of the region's newest epochs."""
    with ledger_of(warehouse) as ledger:
        epoch, now = ledger.epoch(region) or 0, LedgerQueries(ledger.engine).now()
        found = newest(Timeline(ledger.engine), region, epoch, now)
    if not found.drivers:
        raise SystemExit(f"region {region} has no run to draw")
    return drawn(found, STYLE)


if __name__ == "__main__":
    region_name = sys.argv[1] if len(sys.argv) > 1 else "flights"
    sys.stdout.write(picture(connection("tidemark_warehouse"), region_name))
