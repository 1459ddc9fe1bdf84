"""The procedures of snapshots and their readers: rollbacks, expiry of snapshots and changelogs, consumers."""

from __future__ import annotations

from penstock.errors import ConfigError, counted
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import SnapshotMissing
from penstock.table.handle import Table
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.sql.procedures.procedure import Arguments, Procedure, table_of
from penstock.table.values.arguments import epoch_millis


def _rollback(catalog: Catalog, given: Arguments) -> list[str]:
    table, texts = table_of(catalog, given), given.texts
    given.number("snapshot_id")  # ConfigError for a text that is not a number
    targets = [texts[name] for name in ("version", "tag", "snapshot_id") if name in texts]
    if len(targets) != 1:
        raise ConfigError("a rollback needs one target", hint="set version, tag or snapshot_id")
    if "tag" in texts and targets[0] not in table.tags and not targets[0].isdecimal():
        raise tag_files(table.store).missing(targets[0])
    # A tag may have a name of digits, and is then meant before the snapshot with this id. Flink's calls by place write
    # the id of a snapshot in the place of the tag.
    is_tag = "snapshot_id" not in texts and (targets[0] in table.tags or not targets[0].isdecimal())
    return _rolled_back(table, targets[0] if is_tag else int(targets[0]))


def _rollback_to_timestamp(catalog: Catalog, given: Arguments) -> list[str]:
    table, moment = table_of(catalog, given), given.moment("timestamp")
    found = snapshot_at(table.store.snapshots, epoch_millis(moment, "timestamp"))
    if found is None:
        raise SnapshotMissing(
            f"there is no snapshot as old as {moment}",
            table=table.name,
            hint="SELECT snapshot_id, commit_time FROM TABLE$snapshots  lists the times",
        )
    return _rolled_back(table, found.id)


def _rollback_to_watermark(catalog: Catalog, given: Arguments) -> list[str]:
    table, most = table_of(catalog, given), given.number("watermark")
    assert most is not None
    # Newest first: the watermark of a table never goes back.
    for snapshot in reversed(table.snapshots):
        if snapshot.watermark is not None and snapshot.watermark <= most:
            return _rolled_back(table, snapshot.id)
    raise SnapshotMissing(
        f"no snapshot has a watermark of at most {most}",
        table=table.name,
        hint="SELECT snapshot_id, watermark FROM TABLE$snapshots  lists the watermarks",
    )


def _rolled_back(table: Table, target: int | str) -> list[str]:
    # Before the rollback, which deletes the snapshots that are listed here.
    undone = table.undone_by_rollback(target)
    return [f"snapshot {table.rollback_to(target).id}", *([str(undone)] if undone else [])]


def _expire_snapshots(catalog: Catalog, given: Arguments) -> str:
    expired = table_of(catalog, given).expire_snapshots(
        retain_max=given.number("retain_max"),
        retain_min=given.number("retain_min"),
        older_than=given.moment("older_than"),
        max_deletes=given.number("max_deletes"),
        options=given.options("options"),
    )
    return f"expired {counted(expired.snapshots, 'snapshot')}, deleted {counted(expired.swept.deleted, 'file')}"


def _expire_changelogs(catalog: Catalog, given: Arguments) -> str:
    expired = table_of(catalog, given).expire_changelogs(
        retain_max=given.number("retain_max"),
        retain_min=given.number("retain_min"),
        older_than=given.moment("older_than"),
        max_deletes=given.number("max_deletes"),
        delete_all=given.flag("delete_all"),
    )
    return f"expired {counted(expired.changelogs, 'changelog')}, deleted {counted(expired.swept.deleted, 'file')}"


def _reset_consumer(catalog: Catalog, given: Arguments) -> str:
    name, following = given.needed("consumer_id"), given.number("next_snapshot_id")
    table = table_of(catalog, given)
    if following is None and name not in table.consumers:
        return f"there is no consumer {name!r}"  # no error, as in Paimon
    table.reset_consumer(name, following)
    return f"deleted {name}" if following is None else f"{name} continues at snapshot {following}"


def _clear_consumers(catalog: Catalog, given: Arguments) -> list[str]:
    table, included = table_of(catalog, given), given.expression("including_consumers")
    excluded = given.expression("excluding_consumers")
    cleared = []
    for name in table.consumers:
        if (included is None or included.fullmatch(name)) and not (excluded is not None and excluded.fullmatch(name)):
            table.reset_consumer(name)
            cleared.append(f"deleted {name}")
    return cleared or ["no consumer matches"]


_ROUND = ("table", "retain_max", "retain_min", "older_than", "max_deletes")
SNAPSHOT_PROCEDURES = {
    "rollback": Procedure(("table", "version", "snapshot_id", "tag"), 1, _rollback, {"snapshot": "snapshot_id"}),
    "rollback_to": Procedure(("table", "tag", "snapshot_id"), 1, _rollback),
    "rollback_to_timestamp": Procedure(("table", "timestamp"), 2, _rollback_to_timestamp),
    "rollback_to_watermark": Procedure(("table", "watermark"), 2, _rollback_to_watermark),
    "expire_snapshots": Procedure((*_ROUND, "options"), 1, _expire_snapshots),
    "expire_changelogs": Procedure((*_ROUND, "delete_all"), 1, _expire_changelogs),
    "reset_consumer": Procedure(
        ("table", "consumer_id", "next_snapshot_id"),
        2,
        _reset_consumer,
        {"consumerId": "consumer_id", "nextSnapshotId": "next_snapshot_id"},
    ),
    "clear_consumers": Procedure(
        ("table", "including_consumers", "excluding_consumers"),
        1,
        _clear_consumers,
        {"includingConsumers": "including_consumers", "excludingConsumers": "excluding_consumers"},
    ),
}
