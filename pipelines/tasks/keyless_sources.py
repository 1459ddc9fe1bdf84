"""Source tables without a key: their rows are left out if the target table needs one."""

from __future__ import annotations

from penstock.formats.change import SourceSchema
from penstock.pipelines.tasks.task_input import TaskContext


class KeylessSources:
    """The decision whether a source is left out because it has no key."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._empty: dict[str, bool] = {}  # whether a table has no snapshot yet

    def leaves_out(self, table: str, source: SourceSchema) -> bool:
        """Return whether rows of this source do not go to the table."""
        layout = self._context.layout(table)
        known = layout.schema if layout else None
        # A keyed table without a snapshot was created for later messages of the same source. Earlier messages may lack
        # the new key column, but their row images are not incomplete.
        if source.states_no_key and known is not None and known.primary_keys and self._is_empty(table):
            known = None
        return self._context.mapping.leaves_out(source, known)

    def _is_empty(self, table: str) -> bool:
        if table not in self._empty:
            self._empty[table] = self._context.warehouse.store(table).snapshots.latest_id() is None
        return self._empty[table]
