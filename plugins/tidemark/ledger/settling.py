"""What an open or a reset decides under the region lock."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from psycopg2.extensions import cursor as Cursor

from tidemark.bounds import Bounds
from tidemark.ledger.queries import query
from tidemark.offsets import Offsets, TopicPartition
from tidemark.settle import Partition, RegionState, ResetRequest


@dataclass(slots=True)
class Settling:
    """One transaction that takes the region's next epoch and says for what."""

    cursor: Cursor
    state: RegionState

    @property
    def region(self) -> str:
        """The region's name."""
        return self.state.region

    def take_epoch(self) -> int:
        """Fence everyone: the epoch by compare-and-set on the server."""
        self._run("take_epoch", epoch=self.state.epoch)
        return int(self.cursor.fetchone()[0])  # type: ignore[index]

    def discard_unpublished_batch(self) -> int | None:
        """Drop the plan of the passed epoch; return its seq. Its seq is not used again."""
        self._run("discard_unpublished_batch")
        found = self.cursor.fetchone()
        self._run("supersede_runs")
        return found[0] if found else None

    def partitions(self) -> dict[TopicPartition, Partition]:
        """Every partition of the region as the ledger knows it."""
        self._run("partitions")
        return {
            TopicPartition(topic, number): Partition(*facts)
            for topic, number, *facts in self.cursor.fetchall()
        }

    def write_initial_offsets(self, initial: Offsets, topic_ids: Mapping[str, str]) -> None:
        """Write where new partitions begin; known ones keep what they have."""
        self._run(
            "write_initial_offsets",
            topics=[partition.topic for partition in initial],
            partitions=[partition.partition for partition in initial],
            topic_ids=[topic_ids[partition.topic] for partition in initial],
            offsets=list(initial.values()),
        )

    def write_run(
        self,
        epoch: int,
        run_id: str,
        opening: UUID,
        bounds: Bounds,
        targets: Offsets,
        backlog: int,
        overrides: list[str],
    ) -> None:
        """Write the run with its target offsets."""
        self._run(
            "write_run",
            epoch=epoch,
            run_id=run_id,
            opening=str(opening),
            max_records=bounds.max_records,
            max_batches=bounds.max_batches,
            max_seconds=bounds.max_seconds,
            backlog=backlog,
            overrides=overrides,
        )
        self._run(
            "write_target_offsets",
            epoch=epoch,
            topics=[partition.topic for partition in targets],
            partitions=[partition.partition for partition in targets],
            offsets=list(targets.values()),
        )

    def write_reset(self, epoch: int, request: ResetRequest, discarded: int | None) -> None:
        """Write the audit row of a reset."""
        self._run(
            "write_reset",
            epoch=epoch,
            requested_by=request.who,
            why=request.why,
            run_id=request.run_id,
            resetting=str(request.uuid),
            discarded_seq=discarded,
            head_seq=self.state.head_seq,
        )
        self._run("count_reset", by_hand=request.run_id is None)

    def _run(self, name: str, **values: object) -> None:
        self.cursor.execute(query(name), {"region": self.region, **values})
