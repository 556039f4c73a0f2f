import socket
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import TidemarkError
from tidemark.kafka import admin
from tidemark.kafka.admin import request_each
from tidemark.kafka.errors import (
    BrokersUnreachable,
    KafkaAnswersError,
    KafkaForbids,
    KafkaTopicMissing,
)
from tidemark.kafka.facts import Broker

MOVES = KafkaError.NOT_LEADER_FOR_PARTITION


class Asked:
    """A broker whose answers to each question are made up, round by round; the last one stays.

    A pause between rounds takes a second of its clock.
    """

    def __init__(self, answers: Mapping[str, Sequence[object]]) -> None:
        self.rounds: list[list[str]] = []
        self.pauses: list[float] = []
        self._answers = {one: list(given) for one, given in answers.items()}

    def __call__(self, names: Sequence[str]) -> dict[str, "Future[Any]"]:
        self.rounds.append([*names])
        return {name: self._next(self._answers[name]) for name in names}

    def all(self, none_if: Collection[str] = ()) -> dict[str, Any]:
        """Every question is asked."""
        return request_each(
            None,
            self([*self._answers]),
            self,
            "question {}".format,
            none_if,
            clock=lambda: len(self.pauses),
            sleep=self.pauses.append,
        )

    def _next(self, answers: list[object]) -> "Future[Any]":
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        future: Future[Any] = Future()
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        else:
            future.set_result(answer)
        return future


def test_all_that_move_are_asked_again_together() -> None:
    """B16: a region whose partitions have no leader yet costs a request a round, not one each."""
    broker = Asked({"a": ["A"], "b": [MOVES, MOVES, "B"], "c": [MOVES, "C"], "d": [MOVES, "D"]})
    found = broker.all()
    assert [*found.items()] == [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert broker.rounds == [["a", "b", "c", "d"], ["b", "c", "d"], ["b"]]
    assert broker.pauses == [admin.AGAIN_SECONDS] * 2


def test_nothing_asked_is_nothing_found() -> None:
    assert Asked({}).all() == {}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaTopicMissing(what="question b")),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaForbids(what="question b", answer="TOPIC_AUTHORIZATION_FAILED"),
        ),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_refusal_is_told_at_once_though_others_move(
    code: int, error: TidemarkError, after: int
) -> None:
    broker = Asked({"a": [MOVES], "b": [*[MOVES] * after, code], "c": [MOVES]})
    with pytest.raises(type(error)) as refused:
        broker.all()
    assert refused.value.fields() == error.fields()
    assert len(broker.pauses) == after


def test_what_may_be_missing_is_none_beside_what_moves() -> None:
    broker = Asked({"a": [MOVES, KafkaError.UNKNOWN_TOPIC_OR_PART], "b": ["B"]})
    assert broker.all({"UNKNOWN_TOPIC_OR_PART"}) == {"a": None, "b": "B"}


@pytest.mark.parametrize(("answers", "rounds"), [([MOVES], 3), (["A"], 3), ([MOVES, "A"], 4)])
def test_the_patience_is_one_for_all_and_begins_anew_with_each_progress(
    monkeypatch: pytest.MonkeyPatch, answers: list[object], rounds: int
) -> None:
    """The first that still moves is named when it is over."""
    monkeypatch.setattr(admin, "SECONDS", 1.5)
    broker = Asked({"a": answers, "b": [MOVES]})
    with pytest.raises(KafkaAnswersError) as moves:
        broker.all()
    assert (moves.value.what[:-1], moves.value.answer) == ("question ", "NOT_LEADER_FOR_PARTITION")
    assert len(broker.rounds) == rounds


@pytest.mark.parametrize(
    ("host", "answer"), [("127.0.0.1", "_TRANSPORT"), ("no-such-host.invalid", "_RESOLVE")]
)
def test_who_cannot_be_reached_is_named_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, host: str, answer: str
) -> None:
    monkeypatch.setattr(admin, "AWAY_SECONDS", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"{host}:{taken.getsockname()[1]}"
        with pytest.raises(BrokersUnreachable) as found:
            Broker({"bootstrap.servers": address}).ping(120)
    assert (found.value.what, found.value.answer) == ("the Kafka cluster", answer)
    assert address in found.value.cause
