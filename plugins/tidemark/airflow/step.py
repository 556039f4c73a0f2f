"""What DAGs and tasks of a pipeline have in common: tags, how often a task is tried, its link."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urljoin

from airflow.sdk import DAG, BaseOperator, BaseOperatorLink, TriggerRule

from tidemark.airflow.compat import BACKOFF, NO_BACKFILL, conf
from tidemark.airflow.errors import ParamsOfForm, TaskKwargsRefused, TriggerRuleTaken
from tidemark.settings.described import Described, Role
from tidemark.settings.pipeline import Pipeline

PAGE = "tidemark-region"
"""The tab's name in a DAG's addresses."""


class RegionLink(BaseOperatorLink):  # type: ignore[misc]
    """A button on the task: is the region well, what broke, what to do."""

    name = "Region"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address of the DAG's tab, behind Airflow's own base address."""
        base = conf.get("api", "base_url", fallback="/")
        return urljoin(f"{base.rstrip('/')}/", f"dags/{quote(ti_key.dag_id)}/plugin/{PAGE}")


Params = Mapping[str, Any]

RETRIES: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": BACKOFF,
    "max_retry_delay": timedelta(minutes=5),
}
"""As long as Kafka needs to miss a killed member; a retry that comes sooner only waits."""

TOOLS = "tidemark-tools"
"""The tag of DAGs that a person starts: by it the list of DAGs can be filtered."""

PER_TASK = (
    "executor", "executor_config", "max_retry_delay", "on_failure_callback", "on_retry_callback",
    "pool", "pool_slots", "priority_weight", "queue", "retries", "retry_delay",
    "retry_exponential_backoff", "weight_rule",
)  # fmt: skip
"""Arguments of Airflow's operators that say where and how often a task runs, not what it does."""

STEP_TIMEOUT = timedelta(minutes=10)

DRAIN_TIMEOUT = timedelta(hours=1)

RUN_WAIT = timedelta(hours=1)
"""How long an open waits for another run of the region; longer if its members may take longer."""

STEP_MARGIN = timedelta(minutes=4)
"""For a step's own work, beside what the pipeline file lets it wait and send."""


def dag_of(dag_id: str, pipeline: Pipeline, form: Params, *, schedule: Any, **kwargs: Any) -> DAG:
    """A DAG with this form; kwargs are Airflow's own.

    Raises:
        InvalidSettings: a param has the name of one of the form.
    """
    kwargs["params"] = _beside(form, kwargs.pop("params", None) or {})
    kwargs["default_args"] = {"owner": "tidemark", **RETRIES, **kwargs.pop("default_args", {})}
    kwargs["tags"] = {"tidemark", pipeline.region, *kwargs.pop("tags", ())}
    usual = {"catchup": False, "max_active_runs": 1, **NO_BACKFILL}
    return DAG(dag_id, schedule=schedule, **(usual | kwargs))


def per_task(argument: str, kwargs: Params | None) -> dict[str, Any]:
    """Take a DAG author's keyword arguments for some of the tasks; refuse all but PER_TASK.

    Raises:
        InvalidSettings: it would change what they do.
    """
    found = dict(kwargs or {})
    if names := tuple(sorted(found.keys() - set(PER_TASK))):
        raise TaskKwargsRefused(argument=argument, names=names, taken=PER_TASK)
    return found


def step_timeout(pipeline: Pipeline) -> timedelta:
    """How long open, close and reset may take: close waits an outage out, and all of them send.

    A shorter time-out than that of a transaction would never let a batch be sent that takes as
    long.
    """
    sending = pipeline.sending.max_seconds if pipeline.sending else 0
    allowed = timedelta(seconds=pipeline.no_progress_seconds + sending)
    return max(STEP_TIMEOUT, STEP_MARGIN + allowed)


def _beside(form: Params, others: Params) -> Params:
    """The form's params and the caller's own.

    Raises:
        InvalidSettings: one of them would replace one of the form's.
    """
    if taken := tuple(sorted(set(form) & set(others))):
        raise ParamsOfForm(names=taken)
    return {**form, **others}


class PipelineOperator(BaseOperator):  # type: ignore[misc]
    """A task of a pipeline file. It takes whatever Airflow's BaseOperator takes.

    It is tried as often as `RETRIES` says, unless the task or its DAG says otherwise.

    Raises:
        InvalidSettings: the file is wrong, or an argument is not for a DAG's author to set.
    """

    operator_extra_links = (RegionLink(),)
    own_rule: ClassVar[TriggerRule | None] = None
    """The trigger rule that it needs; None: any."""

    def __init__(self, *, pipeline: str | Path, **kwargs: Any) -> None:
        if self.own_rule:
            if "trigger_rule" in kwargs:
                raise TriggerRuleTaken(operator=type(self).__name__, rule=self.own_rule.value)
            kwargs["trigger_rule"] = self.own_rule
        kwargs["default_args"] = RETRIES | (kwargs.get("default_args") or {})
        usual = {"execution_timeout": step_timeout(Pipeline.load(pipeline)), "doc_md": self.__doc__}
        super().__init__(**(usual | kwargs))
        self.pipeline = str(pipeline)


def described(pipeline: Pipeline, role: Role) -> str:
    """For a task's doc_json: by it the page finds the region, without the pipeline file."""
    return Described.of(pipeline.for_readers, role).to_json()
