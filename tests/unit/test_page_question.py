"""What goes to a helper process, and what comes back."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.said import said

from tidemark.errors import Refused, TidemarkError
from tidemark.page.errors import ConnectionNotOnServer
from tidemark.page.question import Answer, Question, answer_in, answered, asked, heard
from tidemark.page.seen import AirflowRun, SeenRegion, UnreadFile
from tidemark.settings.connections import Connection
from tidemark.settings.described import Described, Role
from tidemark.settings.pipeline import Pipeline

DAGS = Path(__file__).resolve().parents[2] / "dags"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seen(**known: object) -> SeenRegion:
    """As the api-server finds it: by what a DAG carries."""
    carried = Described.of(Pipeline.load(DAGS / "flights.yaml"), Role.run).to_json()
    described = Described.from_json(carried)
    assert described is not None
    return SeenRegion(described, {Role.run: ("flights",)}, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "region",
    [
        seen(),
        seen(
            is_paused=True, next_run_at=NOON, schedule="@daily", unread=UnreadFile("f.py", None),
            last_run=AirflowRun(1, "flights", "r", "failed", NOON, None, ("drain", "DATA_LOST")),
        ),
    ],
)  # fmt: skip
def test_a_question_comes_whole_to_its_helper(region: SeenRegion) -> None:
    given: dict[str, Connection | TidemarkError] = {
        "w": Connection("w", "postgres", "h", 1, "me", "secret", "s", {"sslmode": "disable"}),
        "k": ConnectionNotOnServer(conn_id="k"),
    }
    question = Question("live", (region,), {"lag": 7})
    told, found = heard(asked(question.text, given))
    assert told == question
    assert told.text == question.text
    assert found["w"] == given["w"]
    missing = found["k"]
    assert isinstance(missing, TidemarkError)
    assert (missing.code, str(missing)) == ("INVALID_SETTINGS", str(given["k"]))


def test_a_question_names_no_secret_and_who_sees_otherwise_asks_otherwise() -> None:
    """By it answers are shared."""
    paused = Question("live", (seen(is_paused=True),))
    assert paused.text != Question("live", (seen(),)).text
    assert paused.text == Question("live", (seen(is_paused=True),)).text
    assert paused.connections == {"tidemark_kafka", "tidemark_warehouse"}


def test_an_answer_comes_back_and_an_error_is_raised() -> None:
    found = Answer("<p>\n</p>")
    assert answer_in(answered(found)) == found
    with pytest.raises(Refused, match="no"):
        answer_in(answered(said(Refused, "no")))
