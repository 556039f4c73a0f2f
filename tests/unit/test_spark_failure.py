"""What an exception that ended a job becomes, and whether a retry may help."""

import pytest
from tests.support.said import said

from tidemark.errors import DataLost, JobFailed, TransformFailed
from tidemark.spark._cause import cause
from tidemark.spark._failure import WorkerError, failed, marked, new_token


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("no such column"), TransformFailed),
        (ConnectionRefusedError("the service of a lookup"), JobFailed),
        (MemoryError(), JobFailed),
    ],
)
def test_only_what_would_raise_again_is_final(error: Exception, kind: type[Exception]) -> None:
    found = failed(error, new_token())
    assert isinstance(found, kind)
    assert not getattr(found, "is_of_dead_worker", False)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (said(DataLost, "3 is gone"), DataLost, "3 is gone"),
        (ValueError("a defect of ours"), JobFailed, "ValueError: a defect of ours"),
    ],
)
def test_what_our_part_of_a_task_raises_is_never_the_transforms(
    error: Exception, kind: type[Exception], says: str
) -> None:
    token = new_token()
    with pytest.raises(WorkerError) as sent, marked(token):
        raise error
    found = failed(RuntimeError(f"Job aborted\n{sent.value}\nat org.apache"), token)
    assert (type(found), str(found)) == (kind, says)


def test_a_syntax_error_is_told_with_file_and_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("def f(:", "jobs/clicks.py", "exec")
    assert cause(caught.value).endswith("(jobs/clicks.py, line 1)")
