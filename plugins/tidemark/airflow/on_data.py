"""A schedule by the records themselves: a doorbell on the topics, and a cron line as the floor."""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable

from tidemark.airflow.doorbell import Doorbell
from tidemark.settings.pipeline import Pipeline

HOURLY = "0 * * * *"
LOOK = timedelta(seconds=10)


def on_data(
    path: str | Path, *, floor: str = HOURLY, look_every: timedelta = LOOK
) -> AssetOrTimeSchedule:
    """A schedule that starts a run when records wait for the pipeline, and at the floor's times.

    Airflow's triggerer looks; it must run, and reach Kafka and the warehouse. `floor` is a cron
    line in UTC: it starts runs where the doorbell is silent, as after a run that failed.

        dag = pipeline_dag(path, schedule=on_data(path))

    Raises:
        InvalidSettings: the file is wrong; Airflow shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    seen = pipeline.for_readers
    bell = Doorbell(
        region=pipeline.region,
        topics=pipeline.kafka.topics,
        kafka=seen.kafka.connection,
        warehouse=seen.warehouse,
        seconds=look_every.total_seconds(),
    )
    records = Asset(
        name=f"{pipeline.region}/records",
        uri=f"tidemark://{pipeline.kafka.connection}/{pipeline.region}/records",
        group="tidemark",
        watchers=[AssetWatcher(name=f"{pipeline.region}/doorbell", trigger=bell)],
    )
    return AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(floor, timezone="UTC"), assets=[records]
    )
