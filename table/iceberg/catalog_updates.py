"""The updates that give a table of an Iceberg REST catalog the metadata that was published in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Node = dict[str, Any]
# So that no engine deletes data files, which belong to the table: Iceberg's own expiry and purging obey it.
PROPERTIES = {"gc.enabled": "false", "penstock.publisher": "penstock"}
MAIN = "main"


@dataclass(slots=True)
class CatalogUpdates:
    """Updates of the protocol, in order, from the metadata `before` that the catalog has to the published `after`.

    A catalog numbers schemas by itself: it uses an equal one again and gives the next number to a new one. So snapshots
    name the numbers that the catalog will have.
    """

    before: Node
    after: Node
    updates: list[Node] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)  # of schemas in the catalog, by their columns

    @classmethod
    def between(cls, before: Node, after: Node) -> list[Node]:
        """Return the updates; an empty list if the catalog has the newest state already."""
        made = cls(before, after)
        made._numbers = {_columns(schema): int(schema["schema-id"]) for schema in before["schemas"]}
        if int(after["format-version"]) > int(before["format-version"]):
            made._add("upgrade-format-version", **{"format-version": after["format-version"]})
        made._schemas(int(before["current-schema-id"]))
        made._snapshots()
        return made.updates

    @classmethod
    def creating(cls, staged: Node, after: Node) -> list[Node]:
        """Return the updates that create the table at the place that the catalog chose for it."""
        made = cls({"snapshots": [], "refs": {}, "schemas": []}, after)
        made._add("assign-uuid", uuid=staged["table-uuid"])
        made._add("upgrade-format-version", **{"format-version": after["format-version"]})
        made._schemas(None)
        made._add("add-spec", spec=after["partition-specs"][0])
        made._add("set-default-spec", **{"spec-id": -1})
        made._add("add-sort-order", **{"sort-order": after["sort-orders"][0]})
        made._add("set-default-sort-order", **{"sort-order-id": -1})
        made._add("set-location", location=staged["location"])
        made._add("set-properties", updates=PROPERTIES)
        made._snapshots()
        return made.updates

    def _add(self, action: str, **members: Any) -> None:
        self.updates.append({"action": action, **members})

    def _schemas(self, current: int | None) -> None:
        """Add schemas that snapshots use, and make the newest one the current one."""
        newest = int(self.after["current-schema-id"])
        used = {int(snapshot["schema-id"]) for snapshot in self.after["snapshots"]} | {newest}
        for schema in self.after["schemas"]:
            if int(schema["schema-id"]) in used and _columns(schema) not in self._numbers:
                number = max(self._numbers.values(), default=-1) + 1
                self._numbers[_columns(schema)] = number
                self._add("add-schema", schema={**schema, "schema-id": number}, **_last_column(self.after))
        chosen = self._number(newest)
        if chosen != current:
            self._add("set-current-schema", **{"schema-id": chosen})

    def _number(self, schema_id: int) -> int:
        schema = next(schema for schema in self.after["schemas"] if int(schema["schema-id"]) == schema_id)
        return self._numbers[_columns(schema)]

    def _snapshots(self) -> None:
        had = {
            int(snapshot["snapshot-id"]): str(snapshot["manifest-list"])
            for snapshot in self.before.get("snapshots") or ()
        }
        wanted = {int(snapshot["snapshot-id"]): snapshot for snapshot in self.after["snapshots"]}
        # After a rollback, an id belongs to another snapshot.
        replaced = [
            number for number, path in had.items() if number in wanted and wanted[number]["manifest-list"] != path
        ]
        if replaced:
            self._add("remove-snapshots", **{"snapshot-ids": replaced})
        latest = 0
        for number, snapshot in sorted(wanted.items()):
            # The catalog writes the history of the table from these times, and refuses one that goes back.
            latest = max(latest, int(snapshot["timestamp-ms"]))
            if number not in had or number in replaced:
                self._add("add-snapshot", snapshot=self._snapshot({**snapshot, "timestamp-ms": latest}))
        self._refs(set(replaced))
        gone = [number for number in had if number not in wanted]
        if gone:
            self._add("remove-snapshots", **{"snapshot-ids": gone})

    def _snapshot(self, snapshot: Mapping[str, Any]) -> Node:
        node = {**snapshot, "schema-id": self._number(int(snapshot["schema-id"]))}
        if int(self.after["format-version"]) >= 3:
            node |= {"first-row-id": 0, "added-rows": 0}  # no row has an id
        return node

    def _refs(self, replaced: set[int]) -> None:
        """Let the branch `main` and the tags name their snapshots. Other branches belong to the catalog's users."""
        had = {name: int(ref["snapshot-id"]) for name, ref in (self.before.get("refs") or {}).items()}
        tags = {name: ref for name, ref in self.after["refs"].items() if ref["type"] == "tag"}
        main = {"type": "branch", "snapshot-id": self.after["current-snapshot-id"]}
        for name, ref in {MAIN: main, **tags}.items():
            if had.get(name) != ref["snapshot-id"] or ref["snapshot-id"] in replaced:
                self._add("set-snapshot-ref", **{"ref-name": name}, **ref)
        for name, ref in (self.before.get("refs") or {}).items():
            if ref["type"] == "tag" and name not in tags:
                self._add("remove-snapshot-ref", **{"ref-name": name})


def requirements(before: Node) -> list[Node]:
    """Return the conditions under which the catalog makes the changes: the table was not changed since it was read."""
    main = (before.get("refs") or {}).get(MAIN)
    return [
        {"type": "assert-table-uuid", "uuid": before["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": None if main is None else main["snapshot-id"]},
    ]


def manifest_lists(node: Mapping[str, Any]) -> Sequence[str]:
    """Return the URIs of the manifest lists of all snapshots in metadata."""
    return [str(snapshot["manifest-list"]) for snapshot in node.get("snapshots") or ()]


def is_followed(before: Node, after: Node) -> bool:
    """Return whether changes can lead from one metadata to the other: partitions and versions cannot go back."""
    return _partitions(before) == _partitions(after) and before["format-version"] <= after["format-version"]


def _partitions(node: Node) -> list[tuple[int, int, str]]:
    default = node.get("default-spec-id", 0)
    spec = next(spec for spec in node["partition-specs"] if spec.get("spec-id", 0) == default)
    return [(int(field["source-id"]), int(field["field-id"]), str(field["name"])) for field in spec["fields"]]


def _columns(schema: Mapping[str, Any]) -> str:
    """Return the columns of a schema in a form that compares, as catalogs differ in blanks: `decimal(10, 2)`."""
    return json.dumps(schema["fields"], sort_keys=True).replace(" ", "")


def _last_column(after: Node) -> Node:
    # Required by older versions of the protocol, deprecated in newer ones.
    return {"last-column-id": after["last-column-id"]}
