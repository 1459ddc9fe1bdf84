"""Who commits a batch, and whether it has been committed before (exactly once by the table's own snapshots)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.ingest.ranges import Offsets, canonical
from penstock.pipelines.run.errors import CheckpointMismatch
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore

PIPELINE = "penstock.pipeline"
START = "penstock.start"
END = "penstock.end"
NEWEST = "penstock.newest"  # the newest event time of the table's rows so far, in milliseconds


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """`checkpoint` is the uuid that Spark gave the checkpoint; a copied checkpoint has the same one."""

    pipeline: str
    checkpoint: str
    number: int
    start: Offsets
    end: Offsets
    newest: Mapping[str, int] = field(default_factory=dict)  # by table, milliseconds

    @property
    def user(self) -> str:
        return f"{self.pipeline}-{self.checkpoint}"

    @property
    def properties(self) -> dict[str, str]:
        return {PIPELINE: self.pipeline, START: canonical(self.start), END: canonical(self.end)}

    def properties_of(self, table: str) -> dict[str, str]:
        """The same with what only this table's snapshot tells."""
        newest = self.newest.get(table, -1)
        return self.properties | ({NEWEST: str(newest)} if newest >= 0 else {})

    def is_in(self, snapshot: Snapshot | None, table: str) -> bool:
        """Whether the snapshot, the newest this user made for this batch or a later one, is this very batch."""
        if snapshot is None:
            return False
        if snapshot.commit_identifier != self.number or _range(snapshot.properties) != _range(self.properties):
            raise CheckpointMismatch(
                "the table has a batch of this number from another part of the source: the checkpoint was rewound,"
                " copied or is used twice",
                table=table,
                snapshot=snapshot.id,
                batch_in_table=snapshot.commit_identifier,
                range_in_table=" to ".join(_range(snapshot.properties)),
                batch=self.number,
                range=" to ".join(_range(self.properties)),
                hint="stop the other job, or start with a new checkpoint and  --accept-replay",
            )
        return True


def _range(properties: Mapping[str, str]) -> tuple[str, str]:
    return properties.get(START, "?"), properties.get(END, "?")


def last_of_pipeline(store: TableStore, pipeline: str) -> Snapshot | None:
    """The newest snapshot any run of the pipeline made, whatever its checkpoint."""
    return next((one for one in store.snapshots.newest_first() if one.properties.get(PIPELINE) == pipeline), None)


def check_checkpoint(store: TableStore, identity: BatchIdentity, *, accept_replay: bool) -> None:
    """A table that another checkpoint of the same pipeline wrote is not written to unasked: rows may come twice."""
    last = last_of_pipeline(store, identity.pipeline)
    if last is None or last.commit_user == identity.user or accept_replay:
        return
    raise CheckpointMismatch(
        "the table was written by this pipeline with another checkpoint",
        table=store.name,
        snapshot=last.id,
        reached=last.properties.get(END),
        hint="go on with the old checkpoint, or  --accept-replay  to read again what the tables may have",
    )
