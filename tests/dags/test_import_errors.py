"""What is left of a stack trace for a page."""

import pytest

FRAMES = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    g()\n    ~^^\n'


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (f"{FRAMES}a.b.NotOne: so: 1\n  and 2\n", "NotOne: so: 1\n  and 2"),
        (f"{FRAMES}KeyError: 'x'\n\nDuring it:\n\n{FRAMES}ValueError: y\n", "ValueError: y"),
        (
            f'{FRAMES}  File "/b.py", line 2\n    x = (\n        ^\nSyntaxError: never closed',
            "SyntaxError: never closed",
        ),
        ("Timed out after 50 s\n", "Timed out after 50 s"),
        ("", ""),
    ],
)
def test_the_error_stands_at_the_end(trace: str, told: str) -> None:
    from tidemark.page.regions import error_text

    assert error_text(trace) == told
