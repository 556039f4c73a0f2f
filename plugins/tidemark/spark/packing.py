"""Packing spans into tasks: about as many as there are cores, about equally wide."""

from collections.abc import Iterable
from heapq import heapify, heapreplace

from tidemark.model.offsets import Span


def pack(spans: Iterable[Span], tasks: int) -> list[tuple[Span, ...]]:
    """Share spans out to at most `tasks` tasks; each span is in exactly one, none is empty.

    The widest span goes first, always to the task with the least so far: no task is wider than
    4/3 of the best possible.

    Raises:
        ValueError: there is no task to share out to.
    """
    if tasks < 1:
        raise ValueError(f"tasks must be positive, got {tasks}")
    packed: list[list[Span]] = [[] for _ in range(tasks)]
    load = [(0, task) for task in range(tasks)]
    heapify(load)
    for span in sorted(spans, key=lambda span: (-span.width, span)):
        width, task = load[0]
        packed[task].append(span)
        heapreplace(load, (width + span.width, task))
    return [tuple(sorted(task)) for task in packed if task]
