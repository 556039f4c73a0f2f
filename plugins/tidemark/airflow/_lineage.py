"""What the tasks of a run tell OpenLineage, through Airflow's provider; nothing without it."""

import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from tidemark.airflow.credentials import resolve
from tidemark.settings.described import ledger_run_id
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.views.lineage import Dataset, Lineage


log = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Whether OpenLineage's provider is installed, and configured to send anything."""
    try:
        if find_spec("airflow.providers.openlineage") is None:
            return False
        from airflow.providers.openlineage.conf import is_disabled

        return not is_disabled()
    except ImportError:
        return False


class Lineaged:
    """What Airflow's OpenLineage provider asks an operator for, when its task starts and ends."""

    pipeline: str
    """The pipeline file."""
    lineage: "Lineage | None" = None
    """What the run has read and written; None until it is looked up."""

    def get_openlineage_facets_on_start(self) -> Any:
        """What the file says."""
        return operator_lineage(declared(self.pipeline))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What the run has read and written."""
        return operator_lineage(self.lineage)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """The same if it is known, else what the file says."""
        return operator_lineage(self.lineage or declared(self.pipeline))


def seen(path: str, context: Context, *, counts: bool) -> "Lineage | None":
    """The lineage of this DAG run, while connections can be asked; None if nobody wants it.

    Nothing fails by it, not even by a task's time-out.
    """

    def look() -> "Lineage | None":
        from tidemark.views.lineage import lineage_of

        pipeline, ti = Pipeline.load(path), context["ti"]
        run_id = ledger_run_id(ti.dag_id, ti.run_id, ti.task_id)
        return lineage_of(pipeline, resolve(pipeline), run_id, counts=counts)

    return _unharmed(look)


def declared(path: str) -> "Lineage | None":
    """The lineage that the pipeline file tells by itself; None if nobody wants it."""

    def look() -> "Lineage":
        from tidemark.views.lineage import declared_lineage

        pipeline = Pipeline.load(path)
        return declared_lineage(pipeline, resolve(pipeline))

    return _unharmed(look)


def _unharmed(look: Callable[[], "Lineage | None"]) -> "Lineage | None":
    if not is_wanted():
        return None
    try:
        return look()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        log.warning("the lineage is not told: %s: %s", type(error).__name__, error)
        return None


def operator_lineage(lineage: "Lineage | None") -> Any:
    """The same in the provider's own terms; None if it is not known."""
    if lineage is None:
        return None
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=[_input(one) for one in lineage.topics],
        outputs=[_output(one, lineage) for one in lineage.tables],
    )


def _input(one: "Dataset") -> Any:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    counted: dict[str, Any] = {}
    if one.count is not None:
        counted["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(one.count)
    return InputDataset(one.namespace, one.name, counted, facets=_schema(one))


def _output(one: "Dataset", lineage: "Lineage") -> Any:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    counted: dict[str, Any] = {}
    if one.count is not None:
        counted["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(one.count)
    facets = _schema(one) | _column_lineage(one, lineage)
    return OutputDataset(one.namespace, one.name, counted, facets=facets)


def _schema(one: "Dataset") -> dict[str, Any]:
    from openlineage.client.facet_v2 import schema_dataset as schema

    fields = [schema.SchemaDatasetFacetFields(*column) for column in one.columns.items()]
    return {"schema": schema.SchemaDatasetFacet(fields=fields)} if fields else {}


def _column_lineage(one: "Dataset", lineage: "Lineage") -> dict[str, Any]:
    from openlineage.client.facet_v2 import column_lineage_dataset as columns

    as_it_is = columns.Transformation("DIRECT", "IDENTITY")
    found = {
        name: columns.Fields(
            [
                columns.InputField(topic.namespace, topic.name, name, [as_it_is])
                for topic in lineage.topics
            ]
        )
        for name in lineage.made_of
        if name in one.columns
    }
    return {"columnLineage": columns.ColumnLineageDatasetFacet(fields=found)} if found else {}
