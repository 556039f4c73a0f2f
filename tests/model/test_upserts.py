"""Upserts in any order, beside a few lines that say what is right.

Real Postgres. The first tier tries the same few runs each time, the other one many at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.support.shop import Shop

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect

SOME, MANY = 3, 100
PARTITIONS = 2

REFUSED = "bad"
"""The word of a record that is as if it had not come."""

Change = tuple[int, str | None, int]
"""Key, word (None deletes), value of order_by."""
Batch = list[list[Change]]
"""The changes of each partition."""
Kept = tuple[tuple[int, ...], str | None]
"""What decides, and the word."""

changes = st.lists(
    st.tuples(
        st.integers(0, 5), st.none() | st.sampled_from(["a", "b", REFUSED]), st.integers(0, 9)
    ),
    max_size=6,
)
batches = st.lists(changes, min_size=PARTITIONS, max_size=PARTITIONS).filter(any)
steps = st.lists(batches | st.floats(0, 1), min_size=1, max_size=8)
"""A batch, or a rewind to a share of the checkpoints."""


@dataclass
class Model:
    """What is right: of each key the last word."""

    is_ordered: bool
    states: list[dict[int, Kept]] = field(default_factory=lambda: [{}])

    def publish(self, batch: Sequence[Sequence[Change]]) -> None:
        state = dict(self.states[-1])
        seq = len(self.states)
        for partition, changes in enumerate(batch):
            for number, (key, word, order) in enumerate(changes):
                if word == REFUSED:
                    continue
                rank = (order, partition) if self.is_ordered else ()
                new = (*rank, seq, number)
                if key not in state or state[key][0] < new:
                    state[key] = (new, word)
        self.states.append(state)

    def rows(self) -> dict[int, str]:
        return {key: word for key, (_, word) in self.states[-1].items() if word is not None}

    def deleted(self) -> set[int]:
        return {key for key, (_, word) in self.states[-1].items() if word is None}


@pytest.mark.parametrize(
    "examples", [SOME, pytest.param(MANY, marks=pytest.mark.long)], ids=["some", "many"]
)
@pytest.mark.parametrize("order_by", [None, "place"])
def test_the_table_is_what_the_model_says(
    warehouse: dict[str, Any], order_by: str | None, examples: int
) -> None:
    """B4, B8, B15: after each batch and rewind, whatever rows the target refuses.

    A key keeps its partition unless there is an order.
    """
    engine = connect(warehouse)
    migrate(engine)

    @settings(
        max_examples=examples,
        derandomize=examples == SOME,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(steps)
    def run(steps: list[Batch | float]) -> None:
        shop = Shop((engine, warehouse), order_by)
        shop.let_be_refused()
        follow(shop, Model(order_by is not None), steps)

    run()
    engine.dispose()


def follow(shop: Shop, model: Model, steps: list[Batch | float]) -> None:
    """The same steps by both; after each one both hold the same."""
    seqs = [0]
    for step in steps:
        if isinstance(step, float):
            kept = round(step * (len(seqs) - 1))
            if seqs[-1] != seqs[kept]:
                shop.desk.rewind(seqs[kept])
            del seqs[kept + 1 :], model.states[kept + 1 :]
        elif any(batch := step if model.is_ordered else in_their_partitions(step)):
            places = [place for changes in batch for *_, place in changes]
            given = [[(key, word) for key, word, _ in changes] for changes in batch]
            seqs.append(shop.publish(*given, places=places).seq or 0)
            model.publish(batch)
        assert shop.rows() == model.rows()
        assert deleted(shop) == model.deleted()


def deleted(shop: Shop) -> set[int]:
    """The keys that the ledger knows as deleted."""
    found = shop.desk.sql(f"SELECT key[1] FROM tidemark.deleted_keys WHERE {shop.desk.here}")
    return {int(key) for (key,) in found}


def in_their_partitions(batch: Batch) -> Batch:
    """The same changes, each key in one partition."""
    all_of_them = [change for changes in batch for change in changes]
    return [[c for c in all_of_them if c[0] % PARTITIONS == p] for p in range(PARTITIONS)]
