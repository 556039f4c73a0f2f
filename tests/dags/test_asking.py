"""How the pages ask: bounded, shared, in processes that may die."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.dags.conftest import PASSWORD
from tests.support.processes import runs
from tests.support.said import said
from tests.support.waiting import until

if TYPE_CHECKING:
    from tidemark.page.asking import Helper

PROGRAM = """
import json, os, sys, time
def body(line):
    {body}
for line in sys.stdin:
    print(json.dumps({{"body": body(line.strip()), "media_type": "text/plain"}}), flush=True)
"""


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], "Helper"]]:
    """Makes a helper whose process answers so."""
    from tidemark.page import asking

    made: list[Helper] = []

    def make(body: str) -> "Helper":
        monkeypatch.setattr(asking, "_program", lambda: PROGRAM.format(body=body))
        made.append(asking.Helper())
        return made[-1]

    yield make
    for one in made:
        one._end()


def process_of(helper: "Helper") -> psutil.Process:
    assert helper._process is not None
    return psutil.Process(helper._process.pid)


def test_one_process_answers_many_questions(helper: Callable[[str], "Helper"]) -> None:
    one = helper("return line")
    assert one.ask(b"a\n", 60).body == "a"
    first = process_of(one).pid
    assert one.ask(b"b\n", 60).body == "b"
    assert process_of(one).pid == first


def test_one_that_takes_too_long_is_killed_and_replaced(helper: Callable[[str], "Helper"]) -> None:
    """B21, G115: a pattern that takes for ever, a server that never answers."""
    from tidemark.page.errors import AnswerTooLate

    one = helper("return line if line != 'hang' else time.sleep(10**6)")
    assert one.ask(b"a\n", 60).body == "a"
    first = process_of(one)
    with pytest.raises(AnswerTooLate):
        one.ask(b"hang\n", 0.1)
    until(lambda: not first.is_running())
    assert one.ask(b"b\n", 60).body == "b"


def test_one_that_died_of_an_earlier_question_is_asked_again(
    helper: Callable[[str], "Helper"],
) -> None:
    """librdkafka aborts its process some time after a request."""
    one = helper("return line")
    assert one.ask(b"a\n", 60).body == "a"
    process_of(one).kill()
    assert one.ask(b"b\n", 60).body == "b"


def test_one_that_dies_of_its_question_is_told(helper: Callable[[str], "Helper"]) -> None:
    from tidemark.page.errors import HelperFailed

    with pytest.raises(HelperFailed):
        helper("os.abort()").ask(b"a\n", 60)


def test_an_answer_is_bounded(
    helper: Callable[[str], "Helper"], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.page import asking
    from tidemark.page.errors import HelperFailed

    monkeypatch.setattr(asking, "MOST_BYTES", 1000)
    with pytest.raises(HelperFailed):
        helper("return line * 1000").ask(b"abc\n", 60)


def test_a_helper_has_nothing_of_airflows_and_no_secret_on_its_command_line(
    helper: Callable[[str], "Helper"], connections: str
) -> None:
    """G116: the connections are in the environment of this process."""
    one = helper("return ' '.join([*os.environ, *os.environ.values()])")
    os.environ["AIRFLOW__CORE__FERNET_KEY"] = "airflows own"
    try:
        found = one.ask(b"a\n", 60).body
    finally:
        del os.environ["AIRFLOW__CORE__FERNET_KEY"]
    assert "AIRFLOW_" not in found  # make itself sets AIRFLOW, a version
    assert PASSWORD not in found
    assert PASSWORD not in " ".join(process_of(one).cmdline())


def test_the_shipped_helper_answers_and_imports_no_airflow(connections: str) -> None:
    from tidemark.page.asking import Helper
    from tidemark.page.question import Question, asked

    one = Helper()
    found = one.ask(asked(Question("regions", (), {"dag_id": None}).text, {}), 60)
    assert "<h1>Regions</h1>" in found.body
    used = {Path(known.path).name for known in process_of(one).memory_maps()}
    assert not [name for name in used if "airflow" in name]
    one._end()
    argv = [
        sys.executable,
        "-c",
        "import sys, tidemark.page.helper; print('airflow' in sys.modules)",
    ]
    assert subprocess.check_output(argv, text=True).strip() == "False"


def test_what_goes_wrong_in_a_helper_is_told_and_it_lives() -> None:
    from tidemark.errors import Unreachable
    from tidemark.page.asking import Helper
    from tidemark.page.errors import HelperFailed
    from tidemark.page.question import Question, asked

    one = Helper()
    with pytest.raises(Unreachable) as caught:
        one.ask(asked(Question("no such question", ()).text, {}), 60)
    assert caught.value.case == HelperFailed.__name__
    assert "KeyError" in str(caught.value.fields()["cause"])
    first = process_of(one).pid
    assert one.ask(asked(Question("regions", (), {"dag_id": None}).text, {}), 60)
    assert process_of(one).pid == first
    one._end()


def test_a_helper_ends_with_its_api_server() -> None:
    """In the middle of a look too."""
    from tidemark.page.asking import Helper
    from tidemark.page.question import Question, asked

    one = Helper()
    one.ask(asked(Question("regions", (), {"dag_id": None}).text, {}), 60)
    process = process_of(one)
    assert one._process is not None
    assert one._process.stdin is not None
    one._process.stdin.close()
    until(lambda: not runs(process.pid))
    assert one._process.wait(300) == 0


def test_when_all_are_at_work_and_enough_wait_the_next_is_sent_away() -> None:
    """G115."""
    from tidemark.page.asking import Busy, Threads

    go, begun = Event(), Event()

    def job() -> str:
        begun.set()
        go.wait(300)
        return "done"

    threads = Threads("test", 1, 2)
    first = threads.submit(job)
    assert begun.wait(300)
    waiting = [threads.submit(job) for _ in range(2)]
    with pytest.raises(Busy):
        threads.submit(job)
    go.set()
    assert [one.result(300) for one in (first, *waiting)] == ["done"] * 3


def test_one_that_waited_too_long_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.page import asking

    monkeypatch.setattr(asking, "WAIT_SECONDS", -1)
    with pytest.raises(asking.Busy):
        asking.Threads("test", 1, 2).submit(lambda: "done").result(300)


def test_all_who_ask_the_same_share_one_answer() -> None:
    """G115."""
    from tidemark.page.asking import SharedAnswers

    begun: list[Future[str]] = []

    def begin() -> "Future[str]":
        begun.append(Future())
        return begun[-1]

    shared = SharedAnswers()
    asked = [shared.get("this", begin) for _ in range(40)]
    assert shared.get("that", begin) is begun[1]
    begun[0].set_result("told")
    assert [one.result() for one in (*asked, shared.get("this", begin))] == ["told"] * 41
    assert len(begun) == 2


def test_an_answer_is_shared_for_some_seconds_and_that_all_are_busy_never_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tidemark.errors import Refused
    from tidemark.page import asking

    def begin(error: BaseException | None = None) -> Callable[[], "Future[Any]"]:
        future: Future[Any] = Future()
        future.set_exception(error) if error else future.set_result("told")
        return lambda: future

    shared = asking.SharedAnswers()
    first = shared.get("refused", begin(said(Refused, "no")))
    assert shared.get("refused", begin()) is first
    shared.get("busy", begin(asking.Busy()))
    assert shared.get("busy", begin()).result() == "told"
    monkeypatch.setattr(asking, "SHARED_SECONDS", 0)
    first = shared.get("old", begin())
    assert shared.get("old", begin()) is not first


def test_a_region_has_one_dry_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """G117."""
    from tidemark.page import asking
    from tidemark.page.question import Question

    begun: list[Future[Any]] = []
    monkeypatch.setattr(asking, "_SHARED", asking.SharedAnswers())

    def begin(*_: Any) -> "Future[Any]":
        begun.append(Future())
        return begun[-1]

    monkeypatch.setattr(asking, "_begin", begin)
    one, other = (Question("dry_run", (), {"to": to}) for to in ("1", "2"))

    async def dry_runs() -> list[Any]:
        asked = [
            asyncio.ensure_future(asking.ask_ledgers_alone(place, question, 1))
            for place, question in (("here", one), ("here", one), ("there", other))
        ]
        await asyncio.sleep(0)
        with pytest.raises(asking.Busy):
            await asking.ask_ledgers_alone("here", other, 1)
        for future in begun:
            future.set_result("told")
        return await asyncio.gather(*asked)

    assert asyncio.run(dry_runs()) == ["told"] * 3
    assert len(begun) == 2
