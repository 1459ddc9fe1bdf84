"""The procedures of tags and branches."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.maintenance.automatic_tags import AutomaticTags
from penstock.table.maintenance.branches import branch_missing
from penstock.table.maintenance.tag_deletion import delete_tags
from penstock.table.sql.procedures.procedure import Arguments, Procedure, table_of

_TAG = ("table", "tag")
_SNAPSHOT = {"snapshot": "snapshot_id"}


def _create_tag(catalog: Catalog, given: Arguments) -> str:
    table, name = table_of(catalog, given), given.needed("tag")
    table.create_tag(name, given.number("snapshot_id"), retain_millis=given.millis("time_retained"))
    return f"tag {name} of snapshot {table.tags[name]}"


def _create_tag_from_timestamp(catalog: Catalog, given: Arguments) -> str:
    table, name = table_of(catalog, given), given.needed("tag")
    table.create_tag(name, timestamp=given.moment("timestamp"), retain_millis=given.millis("time_retained"))
    return f"tag {name} of snapshot {table.tags[name]}"


def _create_tag_from_watermark(catalog: Catalog, given: Arguments) -> str:
    table, name = table_of(catalog, given), given.needed("tag")
    table.create_tag(name, watermark=given.number("watermark"), retain_millis=given.millis("time_retained"))
    return f"tag {name} of snapshot {table.tags[name]}"


def _replace_tag(catalog: Catalog, given: Arguments) -> str:
    table, name = table_of(catalog, given), given.needed("tag")
    table.replace_tag(name, given.number("snapshot_id"), retain_millis=given.millis("time_retained"))
    return f"tag {name} of snapshot {table.tags[name]}"


def _rename_tag(catalog: Catalog, given: Arguments) -> None:
    table_of(catalog, given).rename_tag(given.needed("tag"), given.needed("target_tag"))


def _delete_tag(catalog: Catalog, given: Arguments) -> list[str]:
    table, names = table_of(catalog, given), given.names("tag")
    # As in Paimon, a missing tag is no error: jobs that delete old tags may run again.
    existing = set(names) & set(table.tags)
    delete_tags(table.store, [name for name in names if name in existing])
    return [f"deleted tag {name}" if name in existing else f"there is no tag {name!r}" for name in names]


def _expire_tags(catalog: Catalog, given: Arguments) -> list[str]:
    return table_of(catalog, given).expire_tags(older_than=given.moment("older_than")) or ["no tag has expired"]


def _trigger_tag_automatic_creation(catalog: Catalog, given: Arguments) -> list[str]:
    table = table_of(catalog, given)
    automatic = AutomaticTags.of(table.store)
    if automatic is None:
        raise ConfigError(
            "the table creates no tags by time",
            table=table.name,
            hint="set tag.automatic-creation to process-time or watermark",
        )
    return automatic.create_due() or ["no tag is due"]


def _create_branch(catalog: Catalog, given: Arguments) -> str:
    table, name = table_of(catalog, given), given.needed("branch")
    if given.flag("ignore_if_exists") and name in table.branches:
        return f"branch {name} exists"
    table.create_branch(name, given.text("tag"))
    return f"branch {name}"


def _delete_branch(catalog: Catalog, given: Arguments) -> None:
    table, names = table_of(catalog, given), given.names("branch")
    missing = [name for name in names if name not in table.branches]
    if missing:
        raise branch_missing(table.store, missing[0])
    for name in names:
        table.delete_branch(name)


def _fast_forward(catalog: Catalog, given: Arguments) -> list[str]:
    table = table_of(catalog, given)
    undone = table.fast_forward(given.needed("branch"))
    latest = table.latest_snapshot
    return [f"snapshot {latest.id}" if latest else "no snapshot", *([str(undone)] if undone else [])]


TAG_PROCEDURES = {
    "create_tag": Procedure((*_TAG, "snapshot_id", "time_retained"), 2, _create_tag, _SNAPSHOT),
    "create_tag_from_timestamp": Procedure((*_TAG, "timestamp", "time_retained"), 3, _create_tag_from_timestamp),
    "create_tag_from_watermark": Procedure((*_TAG, "watermark", "time_retained"), 3, _create_tag_from_watermark),
    "replace_tag": Procedure((*_TAG, "snapshot_id", "time_retained"), 2, _replace_tag, _SNAPSHOT),
    "rename_tag": Procedure((*_TAG, "target_tag"), 3, _rename_tag, {"tagName": "tag", "targetTagName": "target_tag"}),
    "delete_tag": Procedure(_TAG, 2, _delete_tag),
    "expire_tags": Procedure(("table", "older_than"), 1, _expire_tags),
    "trigger_tag_automatic_creation": Procedure(("table",), 1, _trigger_tag_automatic_creation),
    "create_branch": Procedure(
        ("table", "branch", "tag", "ignore_if_exists"), 2, _create_branch, {"ignoreIfExists": "ignore_if_exists"}
    ),
    "delete_branch": Procedure(("table", "branch"), 2, _delete_branch),
    "fast_forward": Procedure(("table", "branch"), 2, _fast_forward),
}
