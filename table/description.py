"""The part of the public `Table` class that describes the table; the other parts build on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import TagFiles
from penstock.table.options.checks import check_given, report
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.schema.option_changes import refuse_other_rules
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written
from penstock.table.values.arguments import option_texts
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.html import facts_html, rows_html


class TableDescription:
    """A table opened at one version of its schema: its names, schema, options, snapshots, tags and branches."""

    def __init__(self, store: TableStore, *, just_opened: bool = False) -> None:
        """Describe the table. A store that was `just_opened` has read the newest schema."""
        self._store = store
        self._schema = store.schema_last_read() if just_opened else store.schema()

    def __repr__(self) -> str:
        keys = f" primary_keys={list(self.primary_keys)}" if self.primary_keys else ""
        return f"Table({self.name!r}{keys} {', '.join(self.schema.names)})"

    def _repr_html_(self) -> str:
        latest = self.latest_snapshot
        facts = {
            "path": self.path,
            "comment": self.comment,
            "primary keys": self.primary_keys,
            "partition keys": self.partition_keys,
            "buckets": self.bucket_mode,
            "schema": self.schema_id,
            "snapshot": None if latest is None else repr(latest),
            "options": [f"{name}={value}" for name, value in sorted(self.options.items())],
        }
        columns = [(field.name, written(field.type), field.description) for field in self._schema.fields]
        return facts_html(self.name, facts) + rows_html(("column", "type", "comment"), columns)

    # description

    @property
    def name(self) -> str:
        """Return the table's name: `database.table` if the path has that form, otherwise the path."""
        return self._store.name

    @property
    def path(self) -> str:
        """Return the path of the table's folder."""
        return self._store.paths.root

    @property
    def store(self) -> TableStore:
        """Return the table's store, the internal access to its files."""
        return self._store

    @property
    def definition(self) -> TableSchema:
        """Return the schema in Paimon's form: types by name, field ids, options."""
        return self._schema

    @property
    def schema(self) -> pa.Schema:
        """Return the schema in Arrow types."""
        return arrow_schema(self._schema.fields)

    @property
    def schemas(self) -> list[TableSchema]:
        """Return all versions of the schema, oldest first."""
        return [self._store.schemas.get(schema_id) for schema_id in self._store.schemas.ids()]

    @property
    def schema_id(self) -> int:
        """Return the id of the schema version this table was opened at."""
        return self._schema.id

    @property
    def options(self) -> dict[str, str]:
        """Return the table options stored in the schema."""
        return dict(self._schema.options)

    @property
    def primary_keys(self) -> list[str]:
        """Return the names of the primary key columns; empty for an append table."""
        return list(self._schema.primary_keys)

    @property
    def partition_keys(self) -> list[str]:
        """Return the names of the partition columns."""
        return list(self._schema.partition_keys)

    @property
    def comment(self) -> str | None:
        """Return the table's comment."""
        return self._schema.comment

    @property
    def bucket_mode(self) -> str:
        """Return how rows are assigned to buckets."""
        return str(Layout.of(self._schema).mode)

    @property
    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots that have not expired, oldest first."""
        found = (self._store.snapshots.find(snapshot_id) for snapshot_id in self._store.snapshots.ids())
        return [snapshot for snapshot in found if snapshot is not None]

    @property
    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table without one."""
        return self._store.snapshots.latest()

    @property
    def tags(self) -> dict[str, int]:
        """Return the tag names and the id of the snapshot each one keeps."""
        files = TagFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {name: files.get(name).snapshot.id for name in files.names()}

    @property
    def branches(self) -> list[str]:
        """Return the names of the branches other than main."""
        return branch_names(self._store)

    @property
    def consumers(self) -> dict[str, int]:
        """Return the consumer names and the id of the snapshot each one reads next."""
        files = ConsumerFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {consumer.id: consumer.next_snapshot for consumer in files.all()}

    def _check_options(self, options: Mapping[str, str] | None) -> None:
        """Raise ConfigError when an option of one read or write is unknown, invalid or not supported.

        Options that have no effect are logged.
        """
        given = option_texts(options)
        check_given(given)
        report(self.name, given)

    def refresh(self) -> Self:
        """Return the table opened at its newest schema."""
        return type(self)(self._store)

    def branch(self, name: str) -> Self:
        """Return the table opened on a branch."""
        return type(self)(self._store.on_branch(name), just_opened=True)

    def _on_branch(
        self, options: Mapping[str, str] | None, branch: str | None = None
    ) -> tuple[TableStore, dict[str, str]]:
        """Return the table's store on the named branch, and the options without `branch`.

        The branch is named by the argument or by the option `branch`; without either it is this table's own.
        """
        self._check_options(options)
        remaining = dict(options or {})
        named = remaining.pop("branch", None)
        if branch is not None and named is not None and named != branch:
            raise ConfigError(
                f"both branch {branch!r} and branch {named!r} are named",
                table=self.name,
                hint="name the branch once, in the name of the table or in the option",
            )
        name = branch if named is None else named
        store = self._store if name is None else self._store.on_branch(None if name == MAIN_BRANCH else name)
        refuse_other_rules(store.schema(), option_texts(remaining))
        return store, remaining
