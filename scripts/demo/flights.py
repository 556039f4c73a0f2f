"""The demonstration: 336,776 flights arrive in Postgres exactly once although drivers are killed.

Airflow drains them with two members. One is killed in the middle of a batch, and then both until
the retries are exhausted; the reset restores the merged checkpoint. A rewind goes back to an older
one, and the next run to the end.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from scripts.demo.airflow_api import AirflowApi
from scripts.demo.example import HEAD, Example, Place, drivers, ended, kill_drivers
from scripts.demo.flight_data import create_topic, records, replay
from scripts.demo.steps import console, step, wait_for

BATCH = {"max_records": 40_000}
MEMBERS = 2
FIELDS = ("carrier", "flight", "tailnum", "dep_delay")
ROWS = f"SELECT kafka_partition, kafka_offset, {', '.join(FIELDS)} FROM public.flights"  # noqa: S608
BY_CARRIER = """
SELECT carrier, count(*), round(avg(dep_delay), 1) FROM public.flights
GROUP BY carrier ORDER BY count(*) DESC LIMIT 5
"""

PLANNED = "SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'planned'"
STAGED = "SELECT pg_relation_size(oid) > 0 FROM pg_class WHERE relname = %s"
DRAINING = """
SELECT count(*) FROM tidemark.members m JOIN tidemark.regions r USING (region, epoch)
WHERE m.region = %s AND m.state = 'draining'
"""
HAS_ENDED = """
SELECT state <> 'open' FROM tidemark.runs WHERE region = %s ORDER BY epoch DESC LIMIT 1
"""
BEFORE_HEAD = """
SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'published'
ORDER BY seq DESC OFFSET 1 LIMIT 1
"""
LAST_RESET = """
SELECT format('epoch %%s fenced everyone; batches discarded: %%s; Kafka set to checkpoint %%s',
              epoch, array_to_string(discarded_seqs, ', '), to_seq)
FROM tidemark.resets WHERE region = %s ORDER BY reset_id DESC LIMIT 1
"""
LAST_REWIND = """
SELECT format('from checkpoint %%s to %%s: %%s rows and %%s dead letters removed',
              from_seq, to_seq, rows_removed, dead_letters_removed)
FROM tidemark.resets WHERE region = %s ORDER BY reset_id DESC LIMIT 1
"""


class Flights(Example):
    """One topic into one table, with the worst that can happen to drivers."""

    name = topic = "flights"
    services = ("kafka", "postgres", "airflow")
    waves = ("336,776 real flights into topic flights, 8 partitions",)
    shows = ("public.flights", BY_CARRIER, ("carrier", "flights", "minutes late at departure"))

    def produce(self, place: Place, wave: int) -> int:
        """All that left New York in 2013."""
        create_topic(place.kafka, self.topic)
        return replay(place.kafka, self.topic, list(records()))

    def drained(self, api: AirflowApi, place: Place, wave: int) -> Iterator[tuple[str, str]]:
        """A run that is killed, its reset, a rewind, and a run to the end."""
        api.wait_for_dag(f"{self.name}_reset")
        run = f"killed-{time.time_ns()}"
        api.trigger(self.name, run, **BATCH)
        with step("two members drain; kill one in the middle of a batch, the other takes over"):
            wait_for(lambda: place.look(DRAINING, self.name) == MEMBERS, "both members to drain")
            seq, [victim, *_] = place.look(PLANNED, self.name), drivers()
            victim.kill()
            killed = f"driver {victim.pid}, SIGKILL while batch {seq} was drained"
            yield "killed", f"{killed}: the other took over"
            wait_for(
                lambda: place.look(HEAD, self.name) >= seq, f"the other to publish batch {seq}"
            )
            console.print(f"  killed {victim.pid}; batch {seq} was published without it")
        with step(
            "kill every driver in the middle of a batch, until Airflow's retries are exhausted"
        ):
            while not place.look(HAS_ENDED, self.name):
                yield from self._killed(place)
        with step("the run goes red, and its reset restores the merged checkpoint"):
            tasks = ended(api, self.name, run, "failed")
            console.print(f"  {', '.join(map(' '.join, tasks.items()))}", soft_wrap=True)
            if tasks["reset"] != "success":
                raise RuntimeError(f"the reset of {run} ended {tasks['reset']}")
            yield "reset", place.look(LAST_RESET, self.name)
        run, to_seq = f"rewind-{time.time_ns()}", place.look(BEFORE_HEAD, self.name)
        with step(f"rewind to checkpoint {to_seq}: target, ledger and Kafka go back together"):
            asked = {"apply": True, "to": str(to_seq), "why": "demonstration"}
            api.trigger(f"{self.name}_reset", run, **asked)
            ended(api, f"{self.name}_reset", run)
            yield "rewind", (told := place.look(LAST_REWIND, self.name))
            console.print(f"  {told}")
        run = f"undisturbed-{time.time_ns()}"
        with step("the next run goes on from there, and reads again what was removed"):
            api.trigger(self.name, run, **BATCH)
            ended(api, self.name, run)

    def _killed(self, place: Place) -> Iterator[tuple[str, str]]:
        """All drivers, once a later batch is half drained; nobody if the run has ended."""
        at = place.look(HEAD, self.name)

        def is_draining() -> bool:
            seq = place.look(PLANNED, self.name)
            return seq > at and place.look(STAGED, f"{self.name}_{seq}_rows") and bool(drivers())

        wait_for(lambda: is_draining() or place.look(HAS_ENDED, self.name), "a batch, or the end")
        seq, pids = place.look(PLANNED, self.name), ", ".join(map(str, kill_drivers()))
        if pids:
            console.print(f"  killed {pids} while batch {seq} was drained")
            yield "", f"driver {pids}, SIGKILL while batch {seq} was drained"

    def differences(self, place: Place) -> Mapping[str, int]:
        """Each record is a row, once, and no other row is there."""
        sent = Counter(
            (message.partition(), message.offset(), *map(json.loads(message.value()).get, FIELDS))
            for message in place.committed(self.topic)
        )
        rows = Counter(place.rows(ROWS))
        return {
            "flights lost": (sent - rows).total(),
            "flights doubled or foreign": (rows - sent).total(),
        }
