"""The policy for schema changes of the source: which kinds of change the table follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import SchemaConflict

if TYPE_CHECKING:
    from penstock.schema_evolution.drift import Drift

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

    def kept(self, drift: Drift) -> Drift:
        """Return the part of a drift that is followed.

        Columns that are not added are omitted from the rows; a column that is not widened accepts values that fit, and
        other values are bad records.
        """
        if self.ignores:
            return replace(drift, added=(), widened=(), comments=(), relaxed=())
        return replace(
            drift,
            added=drift.added if self.follows(ADD_COLUMN) else (),
            widened=drift.widened if self.follows(ALTER_TYPE) else (),
        )

    def check(self, drift: Drift) -> None:
        """Raise SchemaConflict when the policy allows no change at all and there is one."""
        if self.behavior != "exception" or not (drift.added or drift.widened):
            return
        raise SchemaConflict(
            "the source's schema changed, and the schema.change.behavior of this pipeline is to fail",
            table=drift.table,
            added=_named(drift.added),
            widened=_named(drift.widened),
            hint="set  pipeline: {schema.change.behavior: evolve}  to apply such changes",
        )

    def check_create(self, table: str) -> None:
        """Raise SchemaConflict when a missing table may not be created."""
        if not self.follows(CREATE_TABLE):
            raise SchemaConflict(
                "the target table does not exist, and this pipeline may not create tables",
                table=table,
                hint="create the table, or add  create.table  to include.schema.changes",
            )


def _named(wanted: Sequence[object]) -> str | None:
    return ", ".join(str(getattr(one, "name", one)) for one in wanted) or None
