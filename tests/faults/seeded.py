"""Seeded bugs: the library with a guard taken out, which a fault test must then notice."""

import shutil
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "tidemark"


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement in one file of the package."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """The text stood there exactly once and is replaced."""
        path = package / self.file
        text = path.read_text()
        found = text.count(self.old)
        assert found == 1, f"{self.file} holds {found} times: {self.old}"
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, slots=True)
class Seed:
    """A bug: what is missing, and the edits that take it out."""

    bug: str
    edits: tuple[Edit, ...]

    def planted(self, folder: Path) -> Path:
        """A copy of the package with the bug, in a folder for PYTHONPATH."""
        shutil.copytree(PACKAGE, folder / "tidemark")
        for edit in self.edits:
            edit.apply(folder / "tidemark")
        return folder


_EPOCH = Edit("ledger/ledger.py", "if state.epoch != epoch:", "if False:")
_WATCH = Edit(
    "member/member_run.py", "return self.ledger.epoch(self.region) != self.epoch", "return False"
)
_LOOKUP = Edit(
    "ledger/publishing.py",
    "return any(found[:2] == (batch.seq, self.epoch) for found in self._unpublished())",
    "return True",
)
_DISCARD = Edit(
    "protocol/settle.py", "discarded = tx.discard_unpublished_batches()", "discarded = ()"
)
_HEAD = Edit("sql/queries/advance_head.sql", "AND r.epoch = %(epoch)s", "")

NO_FENCE = Seed("no batch and epoch fence", (_EPOCH, _WATCH, _LOOKUP))
NO_FENCE_AT_ALL = Seed(
    "no batch and epoch fence, and no second line behind it (discard, head)",
    (_EPOCH, _WATCH, _LOOKUP, _DISCARD, _HEAD),
)

_GAP = Edit(
    "model/plan.py",
    "Span(*partition, start := next_offsets[partition], start + width)",
    "Span(*partition, (start := next_offsets[partition]) + (turn % 2 == 0), start + width)",
)
SKIPPING_PLAN = Seed("a plan that skips an offset", (_GAP,))
NO_SPAN_CAS = Seed(
    "no span compare-and-set (under a plan that skips an offset)",
    (
        _GAP,
        Edit(
            "sql/migrations/0001_ledger.sql",
            "\n          AND p.next_offset = s.start_offset;",
            ";",
        ),
    ),
)

_COUNTS = (
    *(
        Edit(
            "sql/migrations/0001_ledger.sql",
            "rows_moved + rows_refused + rows_deleted + rows_superseded = rows_contributed),\n"
            f"    CONSTRAINT {following}",
            f"true),\n    CONSTRAINT {following}",
        )
        for following in ("moved_dead_letters_equal_contributed", "overwritten_rows_were_moved")
    ),
    Edit(
        "sql/migrations/0001_ledger.sql",
        "dead_letters_moved + letters_kept = dead_letters_contributed + records_refused",
        "true",
    ),
)
NO_COUNT_CHECK = Seed("no count check", _COUNTS)

MIRROR_BEFORE_PUBLISH = Seed(
    "mirror before publish",
    (
        Edit(
            "member/publisher.py",
            "outcome = contribute_and_publish(",
            "ends = {p.span.topic_partition: p.span.end for p in batch.spans}\n"
            "                with self._run.group.writer() as writer:\n"
            '                    writer.commit(ends, "too early")\n'
            "                outcome = contribute_and_publish(",
        ),
    ),
)
UNFENCED_MIRROR = Seed(
    "mirror without fencing (each writer a transactional.id of its own)",
    (
        Edit(
            "kafka/group.py",
            'return f"tidemark-{self.group_id}"',
            "return f\"tidemark-{self.group_id}-{__import__('uuid').uuid4()}\"",
        ),
    ),
)

STAGED_BY_ATTEMPT = Seed(
    "staging keyed by attempt number alone (and no count check behind it)",
    (
        Edit(
            "operations/drain.py",
            "        number = region.ledger.register_member(",
            "        number = 1\n        region.ledger.register_member(",
        ),
        *_COUNTS,
    ),
)

END_IS_LAST_RECORD = Seed(
    "end = last record + 1",
    (
        Edit(
            "spark/reader.py",
            "        journal.complete(tallies)\n",
            "        journal.complete({\n"
            "            Span(*span.topic_partition, span.start, tally.read_up_to.offset): tally\n"
            "            for span, tally in tallies.items() if tally.read_up_to\n"
            "        })\n",
        ),
    ),
)

_UNSEEN_FAILURE = Edit(
    "ledger/deciding.py",
    'self._run("close_run", state=state, reason=reason)',
    'self._run("close_run", state=state, reason=reason)\n'
    "        try:\n"
    '            self.cursor.execute("SELECT 1 / 0")\n'
    "        except Exception:\n"
    "            pass",
)
UNSEEN_FAILURE = Seed("a statement whose failure is swallowed", (_UNSEEN_FAILURE,))
IGNORED_COMMIT_TAG = Seed(
    "ignored COMMIT tag (after a failure that is swallowed)",
    (
        _UNSEEN_FAILURE,
        Edit("postgres/transaction.py", 'if cursor.statusmessage != "COMMIT":', "if False:"),
    ),
)

SUCCESS_UNASKED = Seed(
    "success without asking the ledger",
    (
        Edit(
            "member/drain.py",
            "while not (progress := self._progress()).is_done:",
            "while not ((progress := self._progress()).is_done or self._publisher.published):",
        ),
        Edit("protocol/close.py", "[*_unfinished(tx, run, batches), *unmirrored]", "[*unmirrored]"),
    ),
)
