"""A replay of dead letters that has not ended, before tables are emptied."""

from __future__ import annotations

from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder


def check_replay(checkpoint: CheckpointFolder) -> None:
    """Raise CheckpointInUse if dead letters are being replayed, or a replay was interrupted.

    The next replay would take an emptied table for one that has the rows of this replay, and delete their letters.
    """
    if checkpoint.begun_replay() is None:
        return
    raise CheckpointInUse(
        "a replay of dead letters has not ended: tables that are emptied now would lose its rows; nothing was changed",
        checkpoint=checkpoint.location,
        hint="penstock dlq FILE replay  finishes it, also if it was killed; then start again. "
        "If it cannot be finished,  penstock dlq FILE drop  deletes its letters and ends the replay",
    )
