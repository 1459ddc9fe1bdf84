"""Records that expire in tables whose keys move between partitions: their keys are new again, in any partition."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.table.dynamic_buckets.index_build import IndexAdvance
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from penstock.table.usable import check_usable
from tests.unit.table.dynamic_buckets.moving_keys import moving_table, write
from tests.unit.table.tables import content, rows

EARLY, LATE = 1_700_000_000, 1_700_007_200


def table_with_an_expired_record(folder: Path, engine: str, **options: str) -> Table:
    """Return a table of an hour's records at the time LATE, after the record of key 1 has expired."""
    clock = [1000 * EARLY]
    rule = {"record-level.expire-time": "1 h", "record-level.time-field": "v", **options}
    made = moving_table(folder, merge_engine=engine, **rule)
    ambient = replace(made.store.ambient, now_millis=lambda: clock[0])
    table = Table(TableStore.open(made.store.storage, made.path, ambient=ambient))
    write(table, ("1", "a", EARLY))
    write(table, ("2", "a", LATE))
    clock[0] = 1000 * LATE
    table.compact(full=True, options={"compaction.force-rewrite-all-files": "true"})
    assert content(table) == [("2", "a", LATE)]
    return table


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize(
    ("engine", "mode"), [("first-row", "truncate(16)"), ("partial-update", "none"), ("deduplicate", "truncate(16)")]
)
def test_the_key_of_an_expired_record_is_new_in_any_partition(
    tmp_path: Path, keys_folder: Path, engine: str, mode: str, lost: bool
) -> None:
    table = table_with_an_expired_record(tmp_path, engine, **{"metadata.stats-mode": mode})
    if lost:
        shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("1", "b", LATE))
    assert content(table) == [("1", "b", LATE), ("2", "a", LATE)]


@pytest.mark.parametrize(
    "change",
    [penstock.ResetOption("record-level.expire-time"), penstock.SetOption("record-level.expire-time", "30 d")],
    ids=["no rule", "a longer time"],
)
def test_the_key_of_an_expired_record_stays_new_after_the_rule_changed(
    tmp_path: Path, change: penstock.SetOption | penstock.ResetOption
) -> None:
    table = table_with_an_expired_record(tmp_path, "first-row")
    table.store.evolve([change], check_usable)
    changed = table.refresh()
    write(changed, ("1", "b", LATE))
    assert content(changed) == [("1", "b", LATE), ("2", "a", LATE)]


def test_records_whose_keys_move_expire_by_no_rule_of_one_compaction(tmp_path: Path) -> None:
    rule = {"record-level.expire-time": "1 h", "record-level.time-field": "v"}
    table = moving_table(tmp_path, merge_engine="first-row", **rule)
    write(table, ("1", "a", 1_700_000_000))
    with pytest.raises(penstock.ConfigError, match="expire by the options of the table only") as refused:
        table.compact(full=True, options={**rule, "record-level.expire-time": "1 min"})
    assert refused.value.facts["options"] == "record-level.expire-time=1 min"
    table.compact(full=True, options=rule)


@pytest.mark.parametrize("engine", ["first-row", "deduplicate", "partial-update"])
def test_records_whose_keys_move_expire_by_no_rule_of_one_writer(tmp_path: Path, engine: str) -> None:
    """A first-row table ignored the next row of a key that such a writer expired."""
    table = moving_table(tmp_path, merge_engine=engine)
    rule = {"record-level.expire-time": "1 h", "record-level.time-field": "v"}
    with pytest.raises(penstock.ConfigError, match="expire by the options of the table only"):
        table.writer(options=rule)
    with pytest.raises(penstock.ConfigError, match="expire by the options of the table only"):
        table.overwrite(options=rule)
    table.store.evolve([penstock.SetOption(key, text) for key, text in rule.items()], check_usable)
    with table.refresh().writer(options=rule) as writer:
        writer.write(rows(table, ("1", "a", 1_700_000_000)))
        writer.commit()


def test_a_partition_without_expired_records_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"record-level.expire-time": "1 h", "record-level.time-field": "v"}
    table = moving_table(tmp_path, **rule)
    second = table.store.ambient.now_millis() // 1000
    write(table, ("1", "a", second))
    write(table, ("1", "a", second), ("2", "a", None))
    monkeypatch.setattr(IndexAdvance, "_read", None)
    table.compact(full=True)
    write(table, ("1", "b", second))
    assert content(table) == [("1", "b", second), ("2", "a", None)]
