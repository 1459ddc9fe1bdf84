"""Performs the steps of a story on our table or on Java's.

Both accept the same steps, so they can alternate on one table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import penstock
from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.catalog.path_tables import create_table_at
from penstock.table.handle import Table
from penstock.table.maintenance.branches import create_branch, fast_forward
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag
from penstock.table.maintenance.tags import create_tag
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import SchemaChange
from penstock.table.usable import check_usable
from penstock.table.values.types import parse_type, type_json
from tests.golden.relations import Type
from tests.golden.rows import arrow_changes, with_ids
from tests.interop.oracle.client import Oracle
from tests.simulation.story import Step, Story

USER = "story"
DAY = 86_400_000


class NotTold(NotImplementedError):
    """A step that our table does not support yet."""


def create_ours(story: Story, storage: Storage, path: str, ambient: Environment | None = None) -> None:
    columns = [(name, parse_type(with_ids(kind))) for name, kind in story.columns]
    create_table_at(
        storage, path, columns, story.primary_keys, story.partition_keys, story.options, None, ambient or Environment()
    )


class Ours:
    """Performs steps on our table. `open_store` opens the table again for each step, as another process would."""

    def __init__(self, open_store: Callable[[str | None], TableStore], user: str = USER) -> None:
        self._open_store, self._user = open_store, user

    def table(self, branch: str | None = None) -> Table:
        return Table(self._open_store(branch))

    def tell(self, step: Step, identifier: int | None = None) -> None:
        """Perform one step, with a commit identifier if it writes. A repeated identifier counts once."""
        arguments = {key: value for key, value in step.items() if key != "op"}
        verb = getattr(self, f"_{step['op']}", None)
        if verb is None:
            raise NotTold(str(step["op"]))
        if step["op"] == "write":
            arguments["identifier"] = identifier
        verb(**arguments)

    def _write(
        self,
        rows: list[list[Any]],
        *,
        identifier: int | None,
        compact: str = "none",
        branch: str | None = None,
        overwrite: Mapping[str, str] | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        table = self.table(branch)
        columns = [(field.name, type_json(field.type)) for field in table.definition.fields]
        data, kinds = arrow_changes(self._fitted(rows, len(columns)), columns)
        user = user or self._user
        opened = table.writer(user, options) if overwrite is None else table.overwrite(overwrite or None, user, options)
        with opened as writer:
            writer.write(data, kinds)
            writer.commit(identifier, watermark=watermark, properties=properties)
        if compact != "none":
            self._compact(full=compact == "full", branch=branch)

    def _fitted(self, rows: list[list[Any]], columns: int) -> list[list[Any]]:
        """Return the rows with a kind and a value for each column."""
        return rows

    def _compact(
        self,
        *,
        full: bool,
        branch: str | None = None,
        user: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        table = self.table(branch)
        if table.options.get("row-tracking.enabled") == "true":
            raise NotTold("compact a table with row ids: they would be lost, so it is refused")
        verb(table, "compact")(full=full, options=options)

    def _alter(self, changes: list[Mapping[str, Any]]) -> None:
        self._open_store(None).evolve([schema_change(change) for change in changes], check_usable)

    def _drop_partition(self, partition: Mapping[str, str]) -> None:
        self.table().drop_partitions([partition])

    def _truncate(self) -> None:
        self.table().truncate()

    def _delete(self, where: str) -> None:
        self.table().delete(where)

    def _rescale(self, buckets: int | None = None) -> None:
        self.table().rescale(buckets)

    def _tag(
        self, name: str, snapshot: int | None = None, retain: str | None = None, branch: str | None = None
    ) -> None:
        # Stories write whole days in ISO form, as in P7D.
        create_tag(self._open_store(branch), name, snapshot, None if retain is None else int(retain[1:-1]) * DAY)

    def _delete_tag(self, name: str) -> None:
        delete_tag(self._open_store(None), name)

    def _branch(self, name: str, tag: str | None = None) -> None:
        create_branch(self._open_store(None), name, tag)

    def _fast_forward(self, name: str) -> None:
        fast_forward(self._open_store(None), name)

    def _analyze(self) -> None:
        self.table().analyze()

    def _rollback(self, snapshot: int) -> None:
        rollback_to(self._open_store(None), snapshot)

    def _expire(self, retain: int, changelog_retain: int | None = None) -> None:
        store = self._open_store(None)
        expire_snapshots(
            store, retain_max=retain, retain_min=retain, older_than=store.ambient.now_millis(), protect_users=0
        )


def verb(table: Table, name: str) -> Callable[..., Any]:
    found = getattr(table, name, None)
    if found is None:
        raise NotTold(name)
    return found  # type: ignore[no-any-return]


def schema_change(change: Mapping[str, Any]) -> SchemaChange:
    kind, name = change["kind"], change.get("name")
    places = {key: change[key] for key in ("first", "after", "before") if key in change}
    dotted = name.split(".") if name and "." in name else name
    match kind:
        case "add":
            return penstock.AddColumn(dotted, typed(change["type"]), change.get("comment"), **places)
        case "rename":
            return penstock.RenameColumn(dotted, change["to"])
        case "drop":
            return penstock.DropColumn(dotted)
        case "type":
            return penstock.UpdateColumnType(dotted, typed(change["type"]), keep_nullability=True)
        case "nullability":
            return penstock.UpdateColumnNullability(dotted, change["nullable"])
        case "comment":
            return penstock.UpdateColumnComment(dotted, change["comment"])
        case "default":
            return penstock.UpdateColumnDefault(dotted, change["value"])
        case "move":
            return penstock.UpdateColumnPosition(dotted, **places)
        case "set":
            return penstock.SetOption(change["key"], change["value"])
        case "unset":
            return penstock.ResetOption(change["key"])
    assert kind == "table_comment", change
    return penstock.UpdateComment(change["comment"])


def typed(kind: Type) -> Any:
    return parse_type(with_ids(kind))


class Javas:
    """Performs the same steps with Java Paimon."""

    def __init__(self, oracle: Oracle, path: Path, user: str = USER) -> None:
        self._oracle, self._path, self._user = oracle, path, user

    def tell(self, step: Step, identifier: int | None = None) -> None:
        arguments = {key: value for key, value in step.items() if key != "op"}
        if step["op"] == "write":
            arguments = {"user": self._user, "identifier": identifier, **arguments}
        self._oracle.ask(step["op"], path=self._path, **arguments)
