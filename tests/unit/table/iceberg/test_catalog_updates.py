"""The updates that bring a table of a REST catalog to the published metadata."""

from __future__ import annotations

from typing import Any

from penstock.table.iceberg.catalog_updates import CatalogUpdates, is_followed, requirements

Node = dict[str, Any]


def schema(number: int, *names: str) -> Node:
    fields = [{"id": place, "name": name, "required": False, "type": "int"} for place, name in enumerate(names)]
    return {"type": "struct", "schema-id": number, "fields": fields}


def snapshot(number: int, schema_id: int = 0, run: str = "a", at: int = 0) -> Node:
    path = f"/t/snap-{number}-{run}.avro"
    return {"snapshot-id": number, "timestamp-ms": at, "manifest-list": path, "schema-id": schema_id}


def metadata(snapshots: list[Node], schemas: list[Node] | None = None, current: int = 0, **more: Any) -> Node:
    newest = snapshots[-1]["snapshot-id"]
    node = {
        "format-version": 2,
        "table-uuid": "u",
        "schemas": schemas or [schema(0, "a")],
        "current-schema-id": current,
        "last-column-id": 9,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "snapshots": snapshots,
        "current-snapshot-id": newest,
        "refs": {"main": {"type": "branch", "snapshot-id": newest}},
    }
    return node | more


def actions(updates: list[Node]) -> list[str]:
    return [str(update["action"]) for update in updates]


def test_nothing_is_sent_if_the_catalog_has_the_newest_state() -> None:
    node = metadata([snapshot(1), snapshot(2)])
    assert CatalogUpdates.between(node, node) == []


def test_schemas_have_the_numbers_of_the_catalog() -> None:
    """The catalog has version 2 as its number 1, since versions 0 and 1 have the same columns."""
    before = metadata([snapshot(1)], [schema(0, "a"), schema(1, "a", "b")], current=1)
    after = metadata(
        [snapshot(1), snapshot(2, 2), snapshot(3, 5), snapshot(4, 1)],
        [schema(0, "a"), schema(1, "a"), schema(2, "a", "b"), schema(3, "x"), schema(5, "a", "c")],
        current=5,
    )
    updates = CatalogUpdates.between(before, after)
    assert actions(updates) == ["add-schema", "set-current-schema", *["add-snapshot"] * 3, "set-snapshot-ref"]
    assert updates[0]["schema"] == schema(2, "a", "c")
    assert updates[1]["schema-id"] == 2
    assert [update["snapshot"]["schema-id"] for update in updates[2:5]] == [1, 2, 0]


def test_an_id_that_belongs_to_another_snapshot_after_a_rollback_is_replaced() -> None:
    before = metadata([snapshot(1), snapshot(2), snapshot(3)])
    updates = CatalogUpdates.between(before, metadata([snapshot(1), snapshot(2, run="b")]))
    assert actions(updates) == ["remove-snapshots", "add-snapshot", "set-snapshot-ref", "remove-snapshots"]
    assert (updates[0]["snapshot-ids"], updates[3]["snapshot-ids"]) == ([2], [3])
    assert updates[1]["snapshot"]["manifest-list"] == "/t/snap-2-b.avro"


def test_times_never_decrease_when_a_clock_is_set_back() -> None:
    """A catalog refuses a history that goes back by more than a minute."""
    hour = 3_600_000
    after = metadata([snapshot(1, at=2 * hour), snapshot(2, at=hour), snapshot(3, at=3 * hour)])
    updates = CatalogUpdates.between(metadata([snapshot(1, at=2 * hour)]), after)
    assert [update["snapshot"]["timestamp-ms"] for update in updates[:2]] == [2 * hour, 3 * hour]


def test_tags_follow_and_branches_of_others_stay() -> None:
    refs = {"main": {"type": "branch", "snapshot-id": 2}, "old": {"type": "tag", "snapshot-id": 1}}
    refs |= {"theirs": {"type": "branch", "snapshot-id": 1}}
    after = metadata([snapshot(1), snapshot(2)])
    after["refs"] = {"new": {"type": "tag", "snapshot-id": 2, "max-ref-age-ms": 5}}
    updates = CatalogUpdates.between(metadata([snapshot(1), snapshot(2)], refs=refs), after)
    assert actions(updates) == ["set-snapshot-ref", "remove-snapshot-ref"]
    assert (updates[0]["ref-name"], updates[0]["max-ref-age-ms"], updates[1]["ref-name"]) == ("new", 5, "old")


def test_a_table_is_created_at_the_place_of_the_catalog_with_the_ids_of_the_table() -> None:
    after = metadata([snapshot(4, 3)], [schema(1, "x"), schema(3, "a", "b")], current=3) | {"format-version": 3}
    updates = CatalogUpdates.creating({"table-uuid": "theirs", "location": "s3://lake/t"}, after)
    by_action = {update["action"]: update for update in updates}
    assert by_action["add-schema"]["schema"] == schema(0, "a", "b")
    assert by_action["assign-uuid"]["uuid"] == "theirs"
    assert by_action["set-location"]["location"] == "s3://lake/t"
    assert by_action["add-snapshot"]["snapshot"] == snapshot(4) | {"first-row-id": 0, "added-rows": 0}


def test_the_requirements_name_the_branch_as_it_was_read() -> None:
    assert requirements(metadata([snapshot(7)]))[1]["snapshot-id"] == 7
    assert requirements(metadata([snapshot(7)], refs={}))[1]["snapshot-id"] is None


def test_other_partitions_and_older_versions_cannot_be_followed() -> None:
    node = metadata([snapshot(1)])
    parts = [{"spec-id": 0, "fields": [{"source-id": 0, "field-id": 1000, "name": "a", "transform": "identity"}]}]
    assert is_followed(node, node | {"format-version": 3})
    assert not is_followed(node | {"format-version": 3}, node)
    assert not is_followed(node, node | {"partition-specs": parts})
