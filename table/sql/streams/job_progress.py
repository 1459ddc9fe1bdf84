"""The progress of a streaming INSERT in its source, which the snapshots of its target record.

The commit's user is the name of the job, its identifier the id of the source's snapshot. So a job that starts again
continues after that, exactly once, and without a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import ConfigError
from penstock.table.commit.rows_of_others import HINT, rows_of_others
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.follow import is_another
from penstock.table.sql.streams.stream_text import StreamSource

log = logging.getLogger(__name__)

PIPELINE_NAME = "pipeline.name"
# Properties of the job's snapshots: the source table whose snapshot id the identifier is, the time of that snapshot's
# commit and its list of changes, the time at which the table was created, and a hash of the query.
_SOURCE, _MILLIS, _QUERY = "penstock.sql.source", "penstock.sql.source-millis", "penstock.sql.query"
_CHANGES, _CREATED = "penstock.sql.source-changes", "penstock.sql.source-created"


@dataclass(frozen=True)
class JobProgress:
    """The progress of one job in its target.

    `query` is the hash of its query. `named`: the job has a name that a user set, and continues even with another
    query.
    """

    source: StreamSource
    table: Table
    user: str
    query: str
    named: bool

    @property
    def _store(self) -> TableStore:
        return self.source.table.store

    @cached_property
    def _created(self) -> int:
        # Not looked up for each commit: the stream itself notices a source that is created again while it runs.
        return self._store.schemas.created_millis()

    def last(self) -> int | None:
        """Return the newest snapshot of the source that the target records. ConfigError if it is of another job."""
        snapshot = self.last_commit()
        return None if snapshot is None else snapshot.commit_identifier

    def last_commit(self) -> Snapshot | None:
        """Return the job's newest commit. ConfigError if it is of another job."""
        snapshot = self.table.committer(self.user).committed(0)
        if snapshot is None:
            if said := rows_of_others(self.table.store, self.user):
                log.warning("event=rows_of_other_jobs table=%s reason=%s hint=%s", self.table.name, said, HINT)
            self._warn_of_expired()
            return None
        self._check(snapshot)
        return snapshot

    def _warn_of_expired(self) -> None:
        """Warn if the table may have had a commit of the job: one that has ended for a week may have expired."""
        earliest = self.table.store.snapshots.earliest_id()
        if earliest is not None and earliest > 1:
            log.warning(
                "event=job_place_expired table=%s job=%s expired_snapshots=%d",
                *(self.table.name, self.user, earliest - 1),
            )

    def commit_of(self, position: int) -> Snapshot | None:
        """Return the job's newest commit if it covers this snapshot of the source, or a later one."""
        return self.table.committer(self.user).committed(position)

    def record(self, position: int | None) -> Snapshot | None:
        """Commit the place in the source without rows; nothing if the rows of its first snapshot are not read yet."""
        if position is None:
            return None
        fields = self.properties(self._store.snapshots.find(position))
        return self.table.committer(self.user).commit([], position, properties=fields, force_empty=True).last

    def properties(self, snapshot: Snapshot | None) -> dict[str, str]:
        """Return the properties of the commit for a snapshot of the source."""
        identity = {_CREATED: str(self._created)}
        if snapshot is not None:
            identity |= {_MILLIS: str(snapshot.time_millis), _CHANGES: snapshot.delta_manifest_list}
        return {_SOURCE: self.source.name, _QUERY: self.query, **identity}

    def _check(self, last: Snapshot) -> None:
        """Raise ConfigError if the job continues on another source, or on one that was rolled back."""
        source = last.properties.get(_SOURCE)
        hint = f"SET '{PIPELINE_NAME}' = '...' to another name, and the job begins at the start"
        if source != self.source.name:
            raise ConfigError(f"the job {self.user!r} has read from {source}", table=self.table.name, hint=hint)
        if not self.named and last.properties.get(_QUERY) != self.query:
            raise ConfigError(
                f"the job {self.user!r} has run with another query up to snapshot {last.commit_identifier} of {source}",
                table=self.table.name,
                hint=f"SET '{PIPELINE_NAME}' = '...': a new name begins at the start; a job with a name that is set "
                "continues, whatever its query",
            )
        position = last.commit_identifier
        if self._is_another(position, last.properties) or (self._store.snapshots.latest_id() or 0) < position:
            raise ConfigError(
                f"snapshot {last.commit_identifier} of {source} was replaced or removed after the job had read it: the "
                "table was rolled back, or dropped and created again",
                table=self.table.name,
                job=self.user,
                hint=hint,
            )

    def _is_another(self, position: int, known: Mapping[str, str]) -> bool:
        """Return whether the source, or its snapshot that was read last, is another now.

        Commits of an older release have no creation time, and do not name the changes.
        """
        if is_another(self._store, position, int(known.get(_MILLIS, 0)), int(known.get(_CREATED, 0))):
            return True
        snapshot = self._store.snapshots.find(position)
        return (
            snapshot is not None and known.get(_CHANGES, snapshot.delta_manifest_list) != snapshot.delta_manifest_list
        )


def job_user(options: Mapping[str, str], source: StreamSource, table: Table, others: list[str]) -> str:
    """Return the commit user of a job: the name of the pipeline, with the source and the target.

    `others` are the users of the other jobs of the statement.
    """
    user = f"{options.get(PIPELINE_NAME, 'sql')}:{source.name}->{table.name}"
    same = sum(other.split("#")[0] == user for other in others)
    return f"{user}#{same + 1}" if same else user
