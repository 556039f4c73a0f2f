"""What a demonstration looks at while a region drains, its ledger and drivers; it kills these."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from scripts.demo.steps import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]


class Warehouse:
    """What the ledger says, as looks."""

    def __init__(self, parameters: dict[str, Any], region: str) -> None:
        self._parameters = parameters
        self._region = region

    def head(self) -> int:
        """Seq of the newest checkpoint."""
        return int(self._value("SELECT max(head_seq) FROM tidemark.regions WHERE region = %s") or 0)

    def planned_seq(self) -> int:
        """Seq of the unpublished batch."""
        statement = "SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'planned'"
        return int(self._value(statement) or 0)

    def is_draining_after(self, seq: int) -> bool:
        """A batch later than `seq` has staged something and is not published."""
        planned = self.planned_seq()
        return planned > seq and bool(
            self._value(
                "SELECT pg_relation_size(c.oid) > 0 FROM pg_class c WHERE c.relname = %s || %s",
                f"_{planned}_rows",
            )
        )

    def run_has_ended(self) -> bool:
        """The newest run is no longer open."""
        statement = (
            "SELECT state <> 'open' FROM tidemark.runs WHERE region = %s"
            " ORDER BY epoch DESC LIMIT 1"
        )
        return bool(self._value(statement))

    def draining_members(self) -> int:
        """Members of the newest epoch that drain."""
        statement = (
            "SELECT count(*) FROM tidemark.members m JOIN tidemark.regions r USING (region, epoch)"
            " WHERE m.region = %s AND m.state = 'draining'"
        )
        return int(self._value(statement))

    def checkpoint_before_head(self) -> int:
        """Seq of the second newest checkpoint."""
        statement = (
            "SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'published'"
            " ORDER BY seq DESC OFFSET 1 LIMIT 1"
        )
        return int(self._value(statement))

    def last_rewind(self) -> str:
        """What the newest rewind took back."""
        return str(
            self._value(
                "SELECT format('from checkpoint %%s to %%s: %%s rows and %%s dead letters removed',"
                " from_seq, to_seq, rows_removed, dead_letters_removed) FROM tidemark.resets"
                " WHERE region = %s ORDER BY reset_id DESC LIMIT 1"
            )
        )

    def published_after(self, seq: int) -> tuple[int, int]:
        """Batches and rows of the checkpoints after `seq`."""
        published = "FROM tidemark.batches WHERE region = %s AND state = 'published' AND seq > %s"
        batches = self._value(f"SELECT count(*) {published}", seq)
        return int(batches), int(
            self._value(f"SELECT coalesce(sum(rows_moved), 0) {published}", seq)
        )

    def drain_seconds(self) -> float:
        """From the plan to the publish, over the batches of the newest run."""
        return float(
            self._value(
                "SELECT extract(epoch FROM sum(published_at - planned_at)) FROM tidemark.batches"
                " WHERE region = %s AND epoch = (SELECT max(epoch) FROM tidemark.batches)"
            )
        )

    def last_reset(self) -> str:
        """What the newest reset did."""
        return str(
            self._value(
                "SELECT format('epoch %%s fenced everyone, batch %%s discarded, Kafka set to"
                " checkpoint %%s', epoch, discarded_seqs, to_seq)"
                " FROM tidemark.resets WHERE region = %s ORDER BY reset_id DESC LIMIT 1"
            )
        )

    def _value(self, statement: str, *values: object) -> Any:
        with psycopg2.connect(**self._parameters) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('tidemark.resets') IS NULL")
            if (cursor.fetchone() or [True])[0]:
                return 0  # before the region's first run
            cursor.execute(statement, (self._region, *values))
            found = cursor.fetchone()
        connection.close()
        return found[0] if found else 0


def drivers() -> list[psutil.Process]:
    """The Spark drivers of this project."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_driver = any(word.endswith("jobs/drain.py") for word in words) and "java" not in words[0]
        if is_driver and str(ROOT) in " ".join(words):
            found.append(process)
    return found


def kill_drivers() -> list[int]:
    """SIGKILL the drivers that are there, and see their end; return their process ids.

    Airflow may have started others by then.
    """
    killed = drivers()
    for process in killed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(killed, timeout=WAIT_SECONDS)
    return [int(process.pid) for process in killed]
