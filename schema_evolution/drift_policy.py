"""Schema drift: declarations of a source that a table lacks, and the policy that decides which of them it follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import SchemaConflict
from penstock.table.values.types import DataType

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


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column as a source declares it, under the name it has in the table."""

    name: str
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Columns that are missing in the table or too narrow there, in the order in which the source lists them."""

    table: str
    added: tuple[DeclaredColumn, ...] = ()
    widened: tuple[DeclaredColumn, ...] = ()
    comments: tuple[DeclaredColumn, ...] = ()
    relaxed: tuple[str, ...] = ()  # NOT NULL columns that will receive nulls from now on

    @property
    def is_none(self) -> bool:
        """Return whether the table can store the source's rows without a change.

        Comments are ignored because they affect no row.
        """
        return not (self.added or self.widened or self.relaxed)

    def followed(self, policy: SchemaPolicy) -> Drift:
        """Return the part of the drift that the policy follows.

        Columns that are not added are omitted from the rows; a column that is not widened accepts values that fit, and
        other values are bad records.
        """
        if policy.ignores:
            return Drift(self.table)
        return replace(
            self,
            added=self.added if policy.follows(ADD_COLUMN) else (),
            widened=self.widened if policy.follows(ALTER_TYPE) else (),
        )

    def check(self, policy: SchemaPolicy) -> None:
        """Raise SchemaConflict when there is a drift and the policy allows no change at all."""
        if policy.behavior != "exception" or not (self.added or self.widened):
            return
        raise SchemaConflict(
            "the source's schema changed, and the schema.change.behavior of this pipeline is to fail",
            table=self.table,
            added=", ".join(column.name for column in self.added) or None,
            widened=", ".join(column.name for column in self.widened) or None,
            hint="set  pipeline: {schema.change.behavior: evolve}  to apply such changes",
        )
