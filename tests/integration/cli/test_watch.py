"""`tidemark status --watch` in a terminal and into a pipe, and colours as NO_COLOR wants them."""

import re
import signal
import subprocess
import sys

import pytest
from tests.support.terminal import COLOUR, CTRL_C, Terminal
from tests.support.world import World

from tidemark.cli.status import Pace


def test_a_terminal_shows_the_region_live(region: World) -> None:
    """B22: lag, members, batches; drawn anew; Ctrl-C ends it with 0 and gives the cursor back."""
    view = Terminal("status", region.region, "--watch", "--every", "0.2")
    view.until("Ctrl-C ends it")
    for text in (region.region, "closed", "checkpoint", "lag", "offsets/s", "m1", "done"):
        view.until(text)
    view.until(f"{region.topic}[0]")
    region.sql("UPDATE tidemark.regions SET consecutive_resets = 7777")
    view.until("7777")
    view.press(CTRL_C)
    assert view.ended() == 0
    assert view.shown.rindex(b"\x1b[?25h") > view.shown.rindex(b"\x1b[?25l")
    assert b"INTERRUPTED" not in view.shown
    assert b"Traceback" not in view.shown


@pytest.mark.long
def test_a_pipe_gets_a_line_at_each_look(region: World) -> None:
    """B22: no escape sequence, and SIGINT ends it with 0."""
    command = [sys.executable, "-m", "tidemark", "status", "--watch", "--every", "0.2"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline().decode() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        assert b"Traceback" not in process.stderr.read()
    for line in lines:
        assert re.fullmatch(
            rf"\d\d:\d\d:\d\d {region.region}: closed, checkpoint 3, lag \d+"
            r"(, 0 offsets/s)?, 0 members\n",
            line,
        ), line


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("status", "nobody"),
        ("check", "dags/pipeline.yaml", "--no-spark"),
    ],
)
def test_colours_respect_no_color(region: World, arguments: tuple[str, ...]) -> None:
    """B22: what is coloured in a terminal is not where NO_COLOR is set; empty it says nothing."""
    shown = {}
    for no_color in ("", "1"):
        view = Terminal(*arguments, NO_COLOR=no_color)
        view.ended()
        shown[no_color] = bool(COLOUR.search(view.shown))
    assert shown == {"": True, "1": False}


def test_throughput_is_that_of_the_last_minute() -> None:
    """B22: unknown at first and after a rewind."""
    pace = Pace()
    assert pace.after(0, 100) is None
    assert pace.after(10, 200) == 10
    assert pace.after(60, 700) == 10
    assert pace.after(100, 1100) == pytest.approx(400 / 40)
    assert pace.after(101, 50) is None
    assert pace.after(103, 52) == 1
