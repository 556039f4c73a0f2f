"""Forms: what a person may say when starting a run or a reset by hand."""

from airflow.sdk import Param


def run_params() -> dict[str, Param]:
    """The form of a run: its bounds, each empty by default, which means as the pipeline file says.

    A DAG of your own that holds the pipeline's task group shows it with `params=run_params()`.
    """
    return {
        "max_records": _limit("Records per batch", "Offsets in one batch, shared fairly.", 10**8),
        "max_batches": _limit("Batches", "Stop after so many batches.", 10**6),
        "max_seconds": _limit("Seconds", "Plan no further batch after so long.", 7 * 86_400),
    }


def reset_params() -> dict[str, Param]:
    """The form of a reset: a dry run unless told otherwise."""
    return {
        "apply": Param(
            False,
            type="boolean",
            title="Apply",
            description="Off: say exactly what would change and change nothing.",
            section="Reset",
        ),
        "reason": Param(
            "",
            type="string",
            maxLength=1000,
            title="Reason",
            description="Kept in the ledger beside who reset and when.",
            section="Reset",
        ),
    }


def _limit(title: str, description: str, most: int) -> Param:
    return Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=most,
        title=title,
        description=f"{description} Empty: as the pipeline file says.",
        section="Bounds of this run",
    )
