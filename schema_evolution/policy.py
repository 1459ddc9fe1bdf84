"""The policy for schema changes of the source: which kinds of change the table follows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import SchemaConflict

ADD_COLUMN, ALTER_TYPE, CREATE_TABLE = "add.column", "alter.column.type", "create.table"


@dataclass(frozen=True, slots=True)
class SchemaPolicy:
    """A policy for schema changes.

    `behavior`: exception stops at any change; ignore follows none; evolve stops at a change that cannot be followed;
    try_evolve and lenient leave the column unchanged in that case. `include` (empty: all) and `exclude` select kinds of
    change.
    """

    behavior: str = "evolve"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def is_lenient(self) -> bool:
        """Return whether a column keeps its type when a change cannot be followed."""
        return self.behavior in {"try_evolve", "lenient", "ignore"}

    @property
    def ignores(self) -> bool:
        """Return whether all changes are ignored."""
        return self.behavior == "ignore"

    def follows(self, event: str) -> bool:
        """Return whether changes of this kind are followed."""
        return event not in self.exclude and (not self.include or event in self.include)

    def check_create(self, table: str) -> None:
        """Raise SchemaConflict when a missing table may not be created."""
        if not self.follows(CREATE_TABLE):
            raise SchemaConflict(
                "the target table does not exist, and this pipeline may not create tables",
                table=table,
                hint="create the table, or add  create.table  to include.schema.changes",
            )
