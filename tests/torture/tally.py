"""What happened in a torture, and the tables that tell it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock, Thread
from traceback import format_exception

TIMES = "times"
"""In the place of a step: how often a fault of a server struck, however many it met."""


@dataclass
class Tally:
    """Hits of faults by step, ends of programs, answers to the sampler, and what must never be."""

    tell: Callable[[str], None] = print
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    """Records by the name of who sent them."""
    _lock: Lock = field(default_factory=Lock)

    def hit(self, fault: str, *steps: str) -> None:
        """A fault has struck a process in each of these steps."""
        with self._lock:
            self.hits.update((fault, step) for step in steps)

    def found(self, what: str) -> None:
        """This must never be."""
        with self._lock:
            self.wrong.append(what)
        self.tell(f"FOUND {what}")

    def thread(self, name: str, work: Callable[[], None]) -> Thread:
        """A running thread whose exception is a finding: what it asks nobody else would ask."""

        def watched() -> None:
            try:
                work()
            except BaseException as error:
                self.found(f"{name} ended: {''.join(format_exception(error))[-1500:]}")

        thread = Thread(target=watched, name=name, daemon=True)
        thread.start()
        return thread

    def struck(self, fault: str) -> bool:
        """Whether the fault has met anybody."""
        return any(name == fault for name, _ in list(self.hits))

    def report(self) -> Iterator[str]:
        """The tables, in Markdown."""
        yield from self._by_step()
        yield from _table(
            ("program", "end", "times"), sorted((*k, n) for k, n in self.ends.items())
        )
        yield from _table(("asked all the while", "times"), sorted(self.looks.items()))
        yield from _table(("sent by", "records"), sorted(self.sent.items()))
        yield f"{len(self.wrong)} findings"
        yield from self.wrong

    def _by_step(self) -> Iterator[str]:
        steps = sorted({step for _, step in self.hits})
        rows: dict[str, dict[str, int]] = defaultdict(dict)
        for (fault, step), count in sorted(self.hits.items()):
            rows[fault][step] = count
        yield from _table(
            ("fault", *steps),
            [(fault, *(counts.get(step, "") for step in steps)) for fault, counts in rows.items()],
        )


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"
    yield ""
