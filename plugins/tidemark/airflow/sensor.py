"""A sensor that waits until a region stands at a checkpoint, or is complete at a time.

It asks the ledger, and joins no group. What its trigger saw only ends the wait: the task looks at
the ledger again before it succeeds, for a rewind may have come between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context, timezone
from airflow.sdk.bases.sensor import PokeReturnValue
from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidemark.airflow.compat import TaskDeferred, conf
from tidemark.airflow.credentials import resolved
from tidemark.airflow.errors import SensorValueUnreadable, SensorWantsNothing
from tidemark.airflow.results import Result, as_airflow_failure
from tidemark.airflow.step import RETRIES, RegionLink
from tidemark.model.plain import moment, plain
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.airflow._shared import CantLook
    from tidemark.ledger.queries import Completeness
    from tidemark.views.completeness import Wanted

log = logging.getLogger(__name__)


class RegionSensor(BaseSensorOperator):  # type: ignore[misc]
    """Wait until the region of a pipeline file stands where you need it; of two, at both.

    `at_least` is the seq of a checkpoint, `complete_at` a time: then all records that Kafka showed
    at that time are in the targets, or are dead letters. Both are templates:

        RegionSensor(task_id="whole", pipeline=FILE, complete_at="{{ data_interval_end }}")

    With `deferrable` it waits in Airflow's triggerer, without a slot; `[operators]
    default_deferrable` is the default. It takes whatever Airflow's BaseSensorOperator takes. Its
    result has region, seq and complete_at.

    Raises:
        InvalidSettings: the file is wrong, or neither is given.
    """

    template_fields = ("at_least", "complete_at")
    operator_extra_links = (RegionLink(),)

    def __init__(
        self,
        *,
        pipeline: str | Path,
        at_least: int | str | None = None,
        complete_at: datetime | str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if at_least is None and complete_at is None:
            raise SensorWantsNothing(task_id=str(kwargs.get("task_id")))
        Pipeline.load(pipeline)
        kwargs["default_args"] = RETRIES | (kwargs.get("default_args") or {})
        super().__init__(**kwargs)
        self.pipeline = str(pipeline)
        self.at_least = at_least
        self.complete_at = complete_at
        usual = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = usual if deferrable is None else deferrable

    def execute(self, context: Context) -> Result | None:
        """Return where the region stands, once it is there.

        Raises:
            AirflowSensorTimeout: it is not there within `timeout`.
        """
        if not self.deferrable:
            found: Result | None = super().execute(context)
            return found
        return self.look(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Whether it is there now."""
        with as_airflow_failure():
            wanted, found = self._wanted(), self._found()
        is_done = wanted.is_reached(found)
        log.info("%s", _stand(found))
        return PokeReturnValue(is_done, _result(found) if found and is_done else None)

    def look(self, context: Context, until: str | None = None, event: Any = None) -> Result | None:
        """Look at the ledger; wait on in the triggerer if it is not there yet.

        `until` is None at first, and in `dag.test`, which hands on the event alone.
        """
        poked = self.poke(context)
        if poked.is_done:
            found: Result | None = poked.xcom_value
            return found
        pipeline = Pipeline.load(self.pipeline).for_readers
        trigger = RegionTrigger(
            region=pipeline.region,
            warehouse=pipeline.warehouse,
            wanted=self._wanted().as_dict(),
            seconds=self.poke_interval,
        )
        now, patience = timezone.utcnow(), timedelta(seconds=self.timeout)
        end = datetime.fromisoformat(until) if until else now + patience
        raise TaskDeferred(
            trigger=trigger,
            method_name="look",
            kwargs={"until": end.isoformat()},
            timeout=max(end - now, timedelta(0)),
        )

    def _wanted(self) -> "Wanted":
        from tidemark.views.completeness import Wanted

        return Wanted(_seq(self.at_least), _moment(self.complete_at))

    def _found(self) -> "Completeness | None":
        from tidemark.runs.region import ledger_of

        pipeline = Pipeline.load(self.pipeline).for_readers
        with ledger_of(resolved(pipeline.warehouse)) as ledger:
            return ledger.queries.completeness([pipeline.region]).get(pipeline.region)


def _seq(given: int | str | None) -> int | None:
    """A template gives a text."""
    if given is None or isinstance(given, int):
        return given
    if not given.isdecimal():
        raise SensorValueUnreadable(
            argument="at_least", given=given, form="the seq of a checkpoint"
        )
    return int(given)


def _moment(given: datetime | str | None) -> datetime | None:
    """A template gives a text."""
    try:
        return None if given is None else moment(given)
    except ValueError:
        form = "a time, as 2026-01-31T12:00:00Z"
        raise SensorValueUnreadable(argument="complete_at", given=str(given), form=form) from None


def _result(found: "Completeness") -> Result:
    result: Result = plain(found)
    return result


def _stand(found: "Completeness | None") -> str:
    """For the task's log."""
    if found is None:
        return "the ledger does not know the region: it never opened, or this is another database"
    at = found.complete_at.isoformat() if found.complete_at else "no time that the ledger can tell"
    return f"region {found.region}: checkpoint {found.seq}, complete at {at}"


class RegionTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires when the ledger says that a region is there; `wanted` is that of `Wanted.as_dict`."""

    def __init__(
        self, *, region: str, warehouse: str, wanted: dict[str, Any], seconds: float
    ) -> None:
        super().__init__()
        self.region = region
        self.warehouse = warehouse
        self.wanted = wanted
        self.seconds = seconds
        self._said = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow keeps of it: a connection id, no secret."""
        kept = ("region", "warehouse", "wanted", "seconds")
        return f"{__name__}.RegionTrigger", {name: getattr(self, name) for name in kept}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once. What can't be asked is asked again, until the sensor's time is over."""
        from tidemark.airflow._looks import SharedCompleteness
        from tidemark.airflow._shared import CantLook, shared
        from tidemark.views.completeness import Wanted

        wanted = Wanted.of(self.wanted)
        async with shared(SharedCompleteness, self.warehouse, self.region) as ledger:
            while True:
                found = await ledger.look(self.region, self.seconds / 2)
                if isinstance(found, CantLook):
                    self._tell(found)
                elif wanted.is_reached(found):
                    break
                await asyncio.sleep(self.seconds)
        yield TriggerEvent({"region": self.region})

    def _tell(self, problem: "CantLook") -> None:
        """For the triggerer's log, once for each problem."""
        if problem.text != self._said:
            log.warning("region %s: %s: %s", self.region, problem.code, problem.text)
        self._said = problem.text
