"""The identity of a commit, by which a repeated commit is recognized and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import CommitConflict
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.arguments import checked_text, optional_whole_number, text_map, whole_number


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits, the commit's identifier, and the watermark and properties it records in the snapshot."""

    user: str
    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ConfigError for values that would make the snapshot's file unreadable."""
        checked_text(self.user, "commit_user")
        whole_number(self.identifier, "identifier")
        optional_whole_number(self.watermark, "watermark")
        text_map(self.properties, "properties")


class AlreadyCommitted(CommitConflict):
    """Raised when another process of the same commit user has committed this identifier, or a later one."""


@dataclass(slots=True)
class OnlyOnce:
    """Protection against committing an identifier twice.

    Snapshots after `looked_at` are searched for the user's identifiers from `refused_from` on.
    """

    looked_at: int
    refused_from: int

    def check(self, store: TableStore, user: str, latest: Snapshot | None) -> None:
        """Raise AlreadyCommitted when a snapshot since the last check has one of the identifiers."""
        snapshot = latest
        while snapshot is not None and snapshot.id > self.looked_at:
            identifier = snapshot.commit_identifier
            # All batch commits have the same identifier, so it proves nothing.
            if snapshot.commit_user == user and identifier != BATCH_IDENTIFIER and identifier >= self.refused_from:
                raise AlreadyCommitted(
                    f"{user!r} has committed {identifier} in another process in the meantime",
                    table=store.name,
                    snapshot=snapshot.id,
                    hint="run one process per commit user at a time",
                )
            snapshot = store.snapshots.find(snapshot.id - 1)
        if latest is not None:
            self.looked_at = latest.id
