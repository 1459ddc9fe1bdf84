"""A replay of dead letters that has not ended, before tables are emptied."""

from __future__ import annotations

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder


def check_replay(spec: PipelineSpec) -> None:
    """Raise CheckpointInUse if dead letters are being replayed, or a replay was interrupted.

    Emptied tables would count as having the rows of the replay, whose letters the next replay deletes.
    """
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    if folder.begun_replay() is None:
        return
    raise CheckpointInUse(
        "a replay of dead letters has not ended: tables that are emptied now would lose its rows; nothing was changed",
        checkpoint=folder.location,
        hint="penstock dlq FILE replay  finishes it, also if it was killed; then start again",
    )
