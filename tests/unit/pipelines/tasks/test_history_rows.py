"""deletes: history, against a model: a dict of the versions of each key."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.tasks import history_rows
from penstock.table.commit.committer import Committer
from tests.here import run
from tests.shop import Shop

Version = tuple[int | None, int, int | None]
START, END = 1_700_000_000_000, 1_800_000_000_000
HISTORY = {"deletes": "history", "table-options": {"bucket": "2"}}


def message(kind: str, key: int, value: int | None, millis: int, **more: Any) -> str:
    row = {"id": str(key), "v": None if value is None else str(value)}
    return json.dumps(
        {
            "type": kind,
            "database": "shop",
            "table": "t",
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": {"id": "bigint", "v": "int"},
            "data": [row],
            "old": [{"v": "-1"}] if kind == "UPDATE" else None,
            "es": millis,
            "ts": millis,
            **more,
        }
    )


@dataclass
class Model:
    """The versions of each key as (value, from, to)."""

    versions: dict[int, list[Version]] = field(default_factory=dict)

    def current(self, key: int) -> Version | None:
        last = self.versions.get(key, [])[-1:]
        return last[0] if last and last[0][2] is None else None

    def end(self, key: int, millis: int) -> None:
        now = self.current(key)
        if now is not None:
            self.versions[key][-1] = (now[0], now[1], max(now[1], millis))

    def put(self, key: int, value: int | None, millis: int) -> None:
        now = self.current(key)
        if now is None or now[0] != value:
            self.end(key, millis)
            self.versions.setdefault(key, []).append((value, millis if now is None else max(now[1], millis), None))


def versions(shop: Shop) -> dict[int, list[Version]]:
    """The versions that the table has, in order of time, after checks of the columns beside them."""
    found: dict[int, list[Version]] = {}
    for row in shop.rows("t"):
        assert row["is_current"] == (row["valid_to"] is None) == (row["_end_position"] == "")
        assert row["_operation"] in {"+I", "+U"}
        ends = None if row["valid_to"] is None else round(row["valid_to"].timestamp() * 1000)
        found.setdefault(row["id"], []).append((row["v"], round(row["valid_from"].timestamp() * 1000), ends))
    return ordered(found)


def ordered(versions: Mapping[int, list[Version]]) -> dict[int, list[Version]]:
    return {
        key: sorted(versions[key], key=lambda version: (version[1], version[2] or END, version[0] or 0))
        for key in sorted(versions)
    }


def changes(dice: random.Random, model: Model, clock: list[int], count: int) -> list[str]:
    found = []
    for _ in range(count):
        clock[0] += dice.randrange(3)  # several changes have one time
        key, value = dice.randrange(12), dice.choice([None, 1, 2])
        # A message that is older than the one before it, as of a clock that was set back.
        millis = clock[0] - (50 if dice.random() < 0.05 else 0)
        if dice.random() < 0.25:
            model.end(key, millis)
            found.append(message("DELETE", key, value, millis))
        else:
            model.put(key, value, millis)
            found.append(message(dice.choice(["INSERT", "UPDATE"]), key, value, millis))
    return found


OPTIONS: list[Mapping[str, str]] = [
    {"bucket": "1"},
    {"bucket": "3", "changelog-producer": "input"},
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "2", "write-only": "true"},
    {"bucket": "-1"},
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_changes_in_batches_that_fail_and_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    if seed % 2:
        monkeypatch.setattr(history_rows, "WINDOW_BYTES", 1)  # every blob is a window
    dice, shop, model, clock = random.Random(seed), Shop(tmp_path), Model(), [START]
    spec = shop.spec(sink={"deletes": "history", "table-options": dict(OPTIONS[seed])})
    for batch in range(5):
        for file in range(dice.randrange(1, 4)):
            shop.put(f"{batch}-{file}.json", *changes(dice, model, clock, dice.choice([1, 5, 60]) if file else 30))
        if batch % 2:
            with monkeypatch.context() as patched:
                patched.setattr(Committer, "commit", _dying)
                with pytest.raises(PenstockError, match="died"):
                    run(spec)
        run(spec)
        assert versions(shop) == ordered(model.versions)


def _dying(*_: object, **__: object) -> None:
    raise PenstockError("died before the commit")


def test_several_changes_of_a_key_in_one_batch_are_chained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START), message("UPDATE", 1, 2, START + 1))
    shop.put("2.json", message("DELETE", 1, 2, START + 2), message("INSERT", 1, 3, START + 5))
    run(shop.spec(sink=HISTORY))
    assert versions(shop) == {1: [(1, START, START + 1), (2, START + 1, START + 2), (3, START + 5, None)]}
    assert sorted((row["v"], row["_operation"]) for row in shop.rows("t")) == [(1, "+I"), (2, "+U"), (3, "+I")]
    assert "updates_without_columns" not in caplog.text, "the columns of versions are in no message"
    assert shop.table("t").primary_keys == ["id", "_end_position"]


def test_a_row_that_comes_again_with_its_values_makes_no_version(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START), message("INSERT", 2, None, START))
    spec = shop.spec(sink=HISTORY)
    run(spec)
    before, snapshots = shop.rows("t"), shop.snapshots("t")
    shop.put("2.json", message("INSERT", 1, 1, START + 9), message("UPDATE", 2, None, START + 9))
    run(spec)
    assert (shop.rows("t"), shop.snapshots("t")) == (before, snapshots)


@pytest.mark.parametrize("gone", [False, True])
def test_all_messages_read_again_by_a_new_checkpoint_change_nothing(tmp_path: Path, gone: bool) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", *(message("UPDATE", key, value, START) for value in (1, 2, 1, 3) for key in (1, 2)))
    if gone:
        shop.put("2.json", message("DELETE", 1, 3, START + 1))
    run(shop.spec(sink=HISTORY))
    before = shop.rows("t")
    again = shop.spec(sink=HISTORY, checkpoint="other", pipeline={"accept-replay": True})
    run(again)
    assert sorted(map(str, shop.rows("t"))) == sorted(map(str, before))


def test_metadata_columns_alone_make_no_version(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    spec = shop.spec(sink=HISTORY | {"metadata-columns": ["op_ts"]})
    shop.put("1.json", message("INSERT", 1, 1, START))
    run(spec)
    shop.put("2.json", message("UPDATE", 1, 1, START + 9), message("UPDATE", 1, 2, START + 10))
    run(spec)
    assert versions(shop) == {1: [(1, START, START + 10), (2, START + 10, None)]}


def test_a_new_column_makes_a_version_from_its_first_value_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START))
    run(shop.spec(sink=HISTORY))
    wider = {"mysqlType": {"id": "bigint", "v": "int", "w": "int"}, "data": [{"id": "1", "v": "1", "w": "7"}]}
    shop.put("2.json", message("UPDATE", 1, 1, START + 1, **wider))
    run(shop.spec(sink=HISTORY))
    rows = sorted(shop.rows("t"), key=lambda row: row["is_current"])
    assert [(row["w"], row["is_current"]) for row in rows] == [(None, False), (7, True)]


def test_a_plan_has_the_columns_of_versions_and_says_why(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START))
    table = tables_planned(shop.spec(sink=HISTORY), 10)[1][0]
    assert (table.primary_keys, table.options["bucket-key"]) == (("id", "_end_position"), "id")
    reasons = {column.name: column.reason for column in table.columns}
    assert reasons["valid_to"] == "describes versions of rows"


def test_old_versions_expire_by_their_end(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    options = {"bucket": "1", "record-level.expire-time": "1 d", "record-level.time-field": "valid_to"}
    shop.put("1.json", message("INSERT", 1, 1, START), message("UPDATE", 1, 2, START + 1))
    run(shop.spec(sink={"deletes": "history", "table-options": options}))
    shop.table("t").compact(full=True)
    assert [(row["v"], row["is_current"]) for row in shop.rows("t")] == [(2, True)]


REFUSED = [
    ({"bucket": "1", "merge-engine": "partial-update"}, {}, "merge-engine=partial-update"),
    ({"bucket": "1", "merge-engine": "first-row"}, {}, "merge-engine=first-row"),
    ({"bucket": "1", "ignore-delete": "true"}, {}, "ignore-delete"),
    ({"bucket": "1", "sequence.field": "v"}, {}, "sequence.field=v"),
    ({"bucket": "1", "rowkind.field": "kind"}, {}, "rowkind.field=kind"),
    ({"bucket": "1", "deletion-vectors.enabled": "true"}, {}, "deletion-vectors"),
    ({"bucket": "-2"}, {}, "bucket=-2"),
    ({"bucket": "-1"}, {"pkNames": []}, "no primary key"),
]


@pytest.mark.parametrize(("options", "more", "words"), REFUSED)
def test_tables_that_cannot_store_versions_are_refused(
    tmp_path: Path, options: dict[str, str], more: dict[str, Any], words: str
) -> None:
    shop = Shop(tmp_path)
    if "rowkind.field" in options:
        more = {"mysqlType": {"id": "bigint", "v": "int", "kind": "varchar(9)"}}
    shop.put("1.json", message("INSERT", 1, 1, START, **more))
    sink = {"deletes": "history", "no-primary-key": "append", "table-options": options}
    with pytest.raises(ConfigError, match=words) as refused:
        run(shop.spec(sink=sink))
    assert "deletes: hard" in str(refused.value)


def test_a_table_with_one_row_per_key_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START))
    run(shop.spec())
    shop.put("2.json", message("INSERT", 2, 1, START))
    with pytest.raises(ConfigError, match="exists with the primary key id, without _end_position"):
        run(shop.spec(sink=HISTORY))
    assert shop.rows("t") == [{"id": 1, "v": 1}]


def test_a_history_table_is_refused_without_history(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", message("INSERT", 1, 1, START))
    run(shop.spec(sink=HISTORY))
    shop.put("2.json", message("INSERT", 2, 1, START))
    with pytest.raises(PenstockError, match="_end_position"):
        run(shop.spec())


def test_the_changelog_of_an_update_has_its_old_row(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    options = {"bucket": "1", "changelog-producer": "input"}
    shop.put("1.json", message("INSERT", 1, 1, START))
    run(shop.spec(sink={"deletes": "history", "table-options": options}))
    shop.put("2.json", message("UPDATE", 1, 2, START + 1))
    run(shop.spec(sink={"deletes": "history", "table-options": options}))
    found = shop.table("t").changes(1, 2).to_pylist()
    assert sorted((row["rowkind"], row["v"], row["is_current"]) for row in found) == [
        ("+I", 1, False),
        ("+U", 2, True),
        ("-U", 1, True),
    ]
