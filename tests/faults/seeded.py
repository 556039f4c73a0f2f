"""Seeded bugs: a guard is taken out of a process, or of its ledger; a fault test must notice.

A seed replaces what it names in the process that plants it, for as long as that lives. What is not
there any more can't be replaced: such a seed is no seed, and its program ends with NOT_PLANTED.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from tests.faults.region import FaultRegion

from tidemark.kafka.group import Group
from tidemark.ledger import deciding, ledger
from tidemark.ledger.deciding import Deciding, Publishing
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.ledger.settling import Settling
from tidemark.model import plan as model_plan
from tidemark.model.batch import Batch, Tally
from tidemark.model.offsets import Offsets, Span
from tidemark.postgres import transaction
from tidemark.postgres.errors import CommitRolledBack
from tidemark.postgres.session import Cursor, query
from tidemark.protocol import close
from tidemark.protocol import plan as protocol_plan
from tidemark.runs._drain import Drain
from tidemark.runs._member_run import MemberRun
from tidemark.runs._publisher import Publisher
from tidemark.spark.reader import StagedJournal

NOT_PLANTED = 99
"""The exit code of a program whose seed names something that is gone."""


def nothing() -> None:
    """The process is as it is."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A bug: what is missing, and the functions that take it out."""

    bug: str
    plant: Callable[[], None] = nothing
    """In this process; it is pickled by its name."""
    plant_in_ledger: Callable[[FaultRegion], None] | None = None
    """In a region's ledger, which has been migrated."""

    def planted(self, region: FaultRegion) -> "Seed":
        """The ledger has its part of the bug; a process that is given the seed has the other."""
        if self.plant_in_ledger:
            engine = region.ledger().engine
            migrate(engine)
            engine.dispose()
            self.plant_in_ledger(region)
        return self


def replaced(owner: object, name: str, new: object) -> None:
    """The attribute is another for the life of the process.

    Raises:
        AttributeError: there is none.
    """
    patch.object(owner, name, new).start()


def without(text: str, part: str) -> str:
    """The text without a part that stands in it once.

    Raises:
        AttributeError: it does not.
    """
    if text.count(part) != 1:
        raise AttributeError(f"{part!r} stands there {text.count(part)} times: {text}")
    return text.replace(part, "")


def no_fence() -> None:
    @contextmanager
    def deciding(self: Ledger, region: str, epoch: int, name: str) -> Iterator[Deciding]:
        with transaction.transaction(self.engine, name) as cursor:
            state = ledger.lock_region(cursor, region)
            yield Deciding(cursor, region, epoch, state.head_seq, state.next_seq)

    replaced(Ledger, "deciding", deciding)
    replaced(MemberRun, "is_fenced", lambda _: False)
    replaced(Publishing, "is_unpublished", lambda *_: True)


def no_fence_at_all() -> None:
    no_fence()
    replaced(Settling, "discard_unpublished_batches", lambda _: ())
    unfenced = without(query("advance_head"), "AND r.epoch = %(epoch)s")
    replaced(deciding, "query", lambda name: unfenced if name == "advance_head" else query(name))


def skipping_plan() -> None:
    plan = model_plan.plan

    def skipping(
        next_offsets: Offsets, targets: Offsets, max_records: int, turn: int
    ) -> tuple[Span, ...]:
        spans = plan(next_offsets, targets, max_records, turn)
        return tuple(replace(span, start=span.start + (turn % 2 == 0)) for span in spans)

    for module in (model_plan, protocol_plan):
        replaced(module, "plan", skipping)


def no_span_cas(region: FaultRegion) -> None:
    function = "'tidemark.advance_partitions(text, bigint)'::regprocedure"
    [(definition,)] = region.sql(f"SELECT pg_get_functiondef({function})")
    region.sql(without(definition, "AND p.next_offset = s.start_offset"))


def no_count_check(region: FaultRegion) -> None:
    region.sql(
        "ALTER TABLE tidemark.batch_targets DROP CONSTRAINT moved_rows_equal_contributed;"
        "ALTER TABLE tidemark.batches DROP CONSTRAINT moved_rows_equal_contributed,"
        " DROP CONSTRAINT moved_dead_letters_equal_contributed"
    )


def mirror_before_publish() -> None:
    contribute = Publisher.contribute

    def early(self: Publisher, target_writers: Any, batch: Batch, *rest: Any) -> None:
        ends = {p.span.topic_partition: p.span.end for p in batch.spans}
        with self._run.group.writer() as writer:
            writer.commit(ends, "too early")
        contribute(self, target_writers, batch, *rest)

    replaced(Publisher, "contribute", early)


def unfenced_mirror() -> None:
    own = property(lambda self: f"tidemark-{self.group_id}-{uuid4()}")
    replaced(Group, "transactional_id", own)


def staged_by_attempt() -> None:
    register = Ledger.register_member

    def first(self: Ledger, *values: Any) -> int:
        register(self, *values)
        return 1

    replaced(Ledger, "register_member", first)


def end_is_last_record() -> None:
    complete = StagedJournal.complete

    def short(self: StagedJournal, tallies: dict[Span, Tally]) -> None:
        found = {
            Span(*span.topic_partition, span.start, tally.read_up_to.offset): tally
            for span, tally in tallies.items()
            if tally.read_up_to
        }
        complete(self, found)

    replaced(StagedJournal, "complete", short)


def unseen_failure() -> None:
    close_run = Deciding.close_run

    def swallowing(self: Deciding, *values: Any) -> None:
        close_run(self, *values)
        with suppress(Exception):
            self.cursor.execute("SELECT 1 / 0")

    replaced(Deciding, "close_run", swallowing)


def ignored_commit_tag() -> None:
    unseen_failure()
    commit = transaction._commit

    def ignoring(cursor: Cursor, name: str) -> None:
        with suppress(CommitRolledBack):
            commit(cursor, name)

    replaced(transaction, "_commit", ignoring)


def success_unasked() -> None:
    is_done = Drain.is_done

    def confident(self: Drain) -> bool:
        return is_done(self) or bool(self._publisher.published)

    replaced(Drain, "is_done", confident)
    replaced(close, "_unfinished", lambda *_: ())


def in_what_is_gone() -> None:
    replaced(Ledger, "a_method_that_nobody_has", None)


NO_FENCE = Seed("no batch and epoch fence", no_fence)
NO_FENCE_AT_ALL = Seed(
    "no batch and epoch fence, and no second line behind it (discard, head)", no_fence_at_all
)
SKIPPING_PLAN = Seed("a plan that skips an offset", skipping_plan)
NO_SPAN_CAS = Seed(
    "no span compare-and-set (under a plan that skips an offset)", skipping_plan, no_span_cas
)
NO_COUNT_CHECK = Seed("no count check", plant_in_ledger=no_count_check)
MIRROR_BEFORE_PUBLISH = Seed("mirror before publish", mirror_before_publish)
UNFENCED_MIRROR = Seed(
    "mirror without fencing (each writer a transactional.id of its own)", unfenced_mirror
)
STAGED_BY_ATTEMPT = Seed(
    "staging keyed by attempt number alone (and no count check behind it)",
    staged_by_attempt,
    no_count_check,
)
END_IS_LAST_RECORD = Seed("end = last record + 1", end_is_last_record)
UNSEEN_FAILURE = Seed("a statement whose failure is swallowed", unseen_failure)
IGNORED_COMMIT_TAG = Seed(
    "ignored COMMIT tag (after a failure that is swallowed)", ignored_commit_tag
)
SUCCESS_UNASKED = Seed("success without asking the ledger", success_unasked)
