"""`errors: {isolate: true}`: a table that fails is parked, the others go on; a retry gives it what it missed, once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, PenstockError, SchemaConflict, TableCorrupt
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.errors import CheckpointInUse, CheckpointMismatch, TablesParked
from penstock.pipelines.job import build
from penstock.pipelines.job.job import Delivery
from penstock.pipelines.ledger.batch_identity import BatchIdentity, range_of
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.tasks import write as writing
from penstock.pipelines.tasks.table_task_writer import TableTaskWriter
from penstock.table.meta.snapshot import Snapshot
from tests.here import note_as_spark_does, run
from tests.shop import Shop, change, insert

ISOLATE = {"isolate": True}


def left_out_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "event=table_left_out" in record.getMessage()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def parking(shop: Shop) -> ParkedTables:
    return build.job(shop.spec(errors=ISOLATE)).parking()


def retry(shop: Shop, **sections: Any) -> PipelineSpec:
    pipeline = {"retry-parked": True} | sections.pop("pipeline", {})
    return shop.spec(pipeline=pipeline, errors=ISOLATE | sections.pop("errors", {}), **sections)


def conflict(shop: Shop, table: str) -> None:
    """A change of type that no column can follow: from INT to bytes."""
    message = insert(table, {"id": 7, "q1": "x"}).replace('"q1": "int"', '"q1": "blob"')
    shop.put("2.json", insert("users", {"id": 2}), message)


def torn_for(table: str) -> Any:
    opened = TableTaskWriter

    def broken(warehouse: Any, name: str, *rest: Any, **more: Any) -> Any:
        if name == table:
            raise TableCorrupt("a manifest is torn", table=name)
        return opened(warehouse, name, *rest, **more)

    return broken


def test_a_conflict_parks_its_table_and_the_others_continue(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    conflict(shop, "orders")
    with pytest.raises(SchemaConflict):
        run(shop.spec())
    run(shop.spec(errors=ISOLATE))
    shop.put("3.json", insert("users", {"id": 3}), insert("orders", {"id": 3}))
    run(shop.spec(errors=ISOLATE))
    assert shop.ids("users") == [1, 2, 3]
    assert shop.ids("orders") == [1]
    parked = parking(shop).tables["ods.orders"]
    assert (parked.batch, parked.error) == (1, "SchemaConflict")
    with pytest.raises(TablesParked, match="1 table failed and is parked") as error:
        raise parking(shop).error()
    assert error.value.exit_code == 10


def test_a_parked_table_keeps_the_hint_of_its_error(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The general advice, `--retry`, helps only after what the error itself asks for."""
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    conflict(shop, "orders")
    run(shop.spec(errors=ISOLATE))
    wanted = "allow more conversions with --type-mapping"
    assert any("event=table_parked" in line and wanted in line for line in caplog.messages)
    assert wanted in str(parking(shop).error())
    note_as_spark_does(shop.folder / "checkpoint")
    [warning] = [error for error in checked_spec(shop.spec(errors=ISOLATE)) if "is parked" in error.message]
    assert warning.fix.startswith(wanted)


@pytest.mark.parametrize("section", ["projection", "filter", "expect"])
def test_a_rule_that_fails_on_rows_of_one_table_parks_that_table(shop: Shop, section: str) -> None:
    """As after a column that the rule uses was dropped at the source, with rows from before in its log."""
    rule: dict[str, Any] = {"source-table": "shop.orders"}
    if section == "expect":
        sections: dict[str, Any] = {"expect": [rule | {"condition": "q1 > 0"}]}
    elif section == "filter":
        sections = {"transform": [rule | {"filter": "q1 > 0"}]}
    else:
        sections = {"transform": [rule | {"projection": "*, q1 + 1 as q2"}]}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec(**sections))
    shop.put("2.json", insert("orders", {"id": 2}), insert("users", {"id": 2}))
    with pytest.raises(ConfigError, match=r"'q1', which is not a column of shop\.orders") as caught:
        run(shop.spec(**sections))
    assert caught.value.facts["source"] == "shop.orders"
    run(shop.spec(errors=ISOLATE, **sections))
    shop.put("3.json", insert("orders", {"id": 3}), insert("users", {"id": 3}))
    run(shop.spec(errors=ISOLATE, **sections))
    assert (shop.ids("orders"), shop.ids("users")) == ([1], [1, 2, 3])
    assert "which is not a column" in parking(shop).tables["ods.orders"].reason
    run(retry(shop))
    assert shop.ids("orders") == [1, 2, 3]


def test_rows_that_a_rule_drops_of_a_missed_batch_are_logged(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Batches that a table misses while it is parked are reported without it, so that nothing else counts them."""
    rules = {"expect": [{"source-table": "shop.*", "condition": "id < 9", "action": "drop", "name": "small"}]}
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec(errors=ISOLATE, **rules))
    shop.put("2.json", insert("orders", {"id": 10}, {"id": 2}), insert("users", {"id": 11}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "TableTaskWriter", torn_for("ods.orders"))
        run(shop.spec(errors=ISOLATE, **rules))
    assert shop.ids("orders") == [1]
    run(retry(shop, **rules))
    assert shop.ids("orders") == [1, 2]
    text = "event=late_rows_passed_over table=ods.orders batch=1 counts=expect.drop.small 1"
    assert [record.getMessage() for record in caplog.records if "late_rows" in record.getMessage()] == [text]


def snapshot_of(shop: Shop, table: str, batch: int) -> Snapshot:
    snapshots = shop.table(table).store.snapshots.newest_first()
    return next(snapshot for snapshot in snapshots if snapshot.commit_identifier == batch)


def test_a_table_with_the_later_batches_of_another_driver_is_released(shop: Shop) -> None:
    """A driver that hangs in a batch, while another one takes it and later ones, may park a table in the end."""
    for number in (1, 2, 3):
        shop.put(f"{number}.json", insert("orders", {"id": number}), insert("users", {"id": number}))
        run(shop.spec(errors=ISOLATE))
    late, start_end = parking(shop), range_of(snapshot_of(shop, "orders", 1))
    late.park("ods.orders", 1, TableCorrupt("a manifest is torn", table="ods.orders"))
    user = snapshot_of(shop, "orders", 1).commit_user
    late.note(BatchIdentity("shop", user.removeprefix("shop-"), 1, *start_end))
    shop.put("4.json", insert("orders", {"id": 4}), insert("users", {"id": 4}))
    run(shop.spec(errors=ISOLATE))
    assert shop.ids("orders") == [1, 2, 3]
    run(retry(shop))
    assert shop.ids("orders") == [1, 2, 3, 4]
    assert not parking(shop).tables


def test_a_driver_that_another_one_overtook_parks_no_table(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec(errors=ISOLATE))
    conflict(shop, "orders")

    def overtaken(*_: Any) -> None:
        (shop.folder / "checkpoint" / "offsets" / "2").touch()
        raise TableCorrupt("a manifest is torn", table="ods.orders")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "TableTaskWriter", overtaken)
        with pytest.raises(CheckpointInUse):
            run(shop.spec(errors=ISOLATE))
    assert not parking(shop).tables


def test_a_new_checkpoint_does_not_pass_over_the_batches_that_a_parked_table_missed(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    conflict(shop, "orders")
    run(shop.spec(errors=ISOLATE))
    shop.put("3.json", insert("users", {"id": 3}))
    run(shop.spec(errors=ISOLATE))

    def resumed(*, accept_gap: bool) -> BatchDriver:
        # Files cannot be read from the position of tables; sources that can come here with the same settings.
        job = build.job(shop.spec(checkpoint="another", errors=ISOLATE))
        delivery = Delivery(resume_from_tables=True, accept_gap=accept_gap)
        return replace(job, delivery=delivery).driver(shop.folder, 1, 1, run_tasks)

    with pytest.raises(CheckpointMismatch, match="parked") as error:
        resumed(accept_gap=False)
    assert error.value.facts["tables"] == "ods.orders"
    last = resumed(accept_gap=True).reader.resumes
    assert last is not None
    assert last.parked == ("ods.orders",)


def test_a_retry_refuses_a_parked_table_that_was_dropped_with_its_earlier_rows(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    conflict(shop, "orders")
    run(shop.spec(errors=ISOLATE))
    shutil.rmtree(shop.table("orders").path)
    run(shop.spec(errors=ISOLATE))  # it stays parked, and the others go on
    with pytest.raises(CheckpointMismatch, match="lacks rows") as error:
        run(retry(shop))
    assert error.value.facts["ods.orders"] == "the table does not exist"
    run(retry(shop, pipeline={"accept-gap": True}))
    assert shop.ids("orders") == [7]
    assert not parking(shop).tables


def test_a_retry_fills_a_dropped_table_that_was_parked_before_it_had_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put("1.json", insert("users", {"id": 1}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2}))
    with monkeypatch.context() as patched:
        patched.setattr(writing, "TableTaskWriter", torn_for("ods.orders"))
        run(shop.spec(errors=ISOLATE))
    assert parking(shop).tables
    shutil.rmtree(shop.table("orders").path)
    run(retry(shop))
    assert shop.ids("orders") == [2]
    assert not parking(shop).tables


def test_a_parked_table_stays_parked_under_another_failure_policy(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1, "q1": 1}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2, "q1": "seven"}), insert("users", {"id": 2}))
    shop.put("2b.json", insert("orders", {"id": 2, "q1": "seven"}))
    run(shop.spec(errors=ISOLATE))
    shop.put("3.json", insert("orders", {"id": 3}), insert("users", {"id": 3}))
    run(shop.spec())
    assert (shop.ids("orders"), shop.ids("users")) == ([1], [1, 2, 3])
    assert [item.number for item in parking(shop).missed("ods.orders")] == [1, 2]


def test_check_warns_of_a_parked_table_until_it_is_released(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1, "q1": 1}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2, "q1": "seven"}), insert("users", {"id": 2}))
    run(shop.spec(errors=ISOLATE))

    def warned(**sections: Any) -> list[tuple[str, str]]:
        found = checked_spec(shop.spec(errors=ISOLATE, **sections))
        return [(finding.message, finding.fix) for finding in found if finding.level == "warning"]

    note_as_spark_does(shop.folder / "checkpoint")
    ((message, fix),) = warned()
    assert message.startswith("ods.orders is parked since batch 1: ")
    assert "penstock run FILE --retry" in fix
    parking(shop).release("ods.orders")
    assert warned() == []


@pytest.mark.slow
def test_a_retry_applies_the_missed_batches_once_and_in_order(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}), insert("users", {"id": 1}))
    run(shop.spec())
    with monkeypatch.context() as patched:
        patched.setattr(writing, "TableTaskWriter", torn_for("ods.orders"))
        for number in range(2, 5):
            shop.put(
                f"{number}.json",
                change("UPDATE", "orders", {"id": 1, "name": f"v{number}"}, old=[{"name": "x"}]),
                insert("orders", {"id": number, "name": "n"}),
                insert("users", {"id": number}),
            )
            run(shop.spec(errors=ISOLATE))
        run(retry(shop))  # still broken
        assert parking(shop).tables["ods.orders"].batch == 1
    assert shop.ids("orders") == [1]
    run(retry(shop))
    assert parking(shop).tables == {}
    assert {path.name for path in (shop.folder / "checkpoint/parked").iterdir()} == {"tables.json"}
    assert {row["id"]: row["name"] for row in shop.rows("orders")} == {1: "v4", 2: "n", 3: "n", 4: "n"}
    orders, users = (list(shop.table(name).store.snapshots.newest_first()) for name in ("orders", "users"))
    assert [(order.commit_user, order.commit_identifier) for order in orders] == [
        (user.commit_user, user.commit_identifier) for user in users
    ]
    shop.put("5.json", insert("orders", {"id": 5, "name": "n"}))
    run(shop.spec(errors=ISOLATE))
    assert shop.ids("orders") == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_killed_retry_continues_and_writes_nothing_twice(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = {"table-options": {"bucket": "-1"}}  # rows without keys: what is written twice shows
    keyless = {"sync-primary-keys-from-source-schema": False, **bucket}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec(sink=keyless))
    shop.put("2.json", insert("orders", {"id": 2, "q1": "bad"}), insert("users", {"id": 2}))
    run(shop.spec(errors=ISOLATE, sink=keyless))
    for number in (3, 4):
        shop.put(f"{number}.json", insert("orders", {"id": number, "q1": 1}))
        run(shop.spec(errors=ISOLATE, sink=keyless))
    original, died = ParkedTables.record_batch, []

    def die(self: ParkedTables, table: str, number: int) -> None:
        if number == 2 and not died:
            died.append(number)
            raise PenstockError("died")
        original(self, table, number)

    monkeypatch.setattr(ParkedTables, "record_batch", die)
    skip = {"bad-record": "skip"}
    with pytest.raises(PenstockError, match="died"):
        run(retry(shop, sink=keyless, errors=skip))
    run(retry(shop, sink=keyless, errors=skip))
    assert shop.ids("orders") == [1, 3, 4]
    assert parking(shop).tables == {}


def test_dead_letters_of_a_parked_table_are_written_with_its_rows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = ISOLATE | {"bad-record": "dead-letter"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1, "q1": 1}))
    run(shop.spec(errors=letters))
    shop.put(
        "2.json",
        "{nonsense",
        insert("orders", {"id": 2, "q1": 2}, {"id": 3, "q1": 3}),
        insert("orders", {"id": 8, "q1": "bad"}),
        insert("users", {"id": 8, "q1": "bad"}),
    )
    with monkeypatch.context() as patched:
        patched.setattr(writing, "TableTaskWriter", torn_for("ods.orders"))
        run(shop.spec(errors=letters))
    assert sorted(map(str, kept(shop))) == ["None", "ods.users"]
    run(retry(shop, errors=letters))
    assert sorted(map(str, kept(shop))) == ["None", "ods.orders", "ods.users"]
    assert shop.ids("orders") == [1, 2, 3]


def kept(shop: Shop) -> list[str | None]:
    names: list[str | None] = shop.table("__penstock_dead_letters").scan().to_arrow()["target_table"].to_pylist()
    return names


def test_a_bad_value_parks_its_table_and_an_unreadable_record_stops_the_job(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2, "q1": "seven"}), insert("users", {"id": 2}))
    run(shop.spec(errors=ISOLATE))
    assert parking(shop).tables["ods.orders"].error == "DecodeError"
    assert shop.ids("users") == [1, 2]
    shop.put("3.json", "{nonsense")
    with pytest.raises(DecodeError):
        run(shop.spec(errors=ISOLATE))


def test_a_table_with_a_failed_commit_is_parked_and_receives_the_batch_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.pipelines.driver.commit import Commits

    commit = Commits._commit

    def torn(self: Commits, store: Any, *rest: Any) -> bool:
        done = commit(self, store, *rest)
        if store.name.endswith("orders"):
            raise TableCorrupt("read back in pieces", table=store.name)  # landed, reported as failed
        return done

    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    with monkeypatch.context() as patched:
        patched.setattr(Commits, "_commit", torn)
        run(shop.spec(errors=ISOLATE))
    assert set(parking(shop).tables) == {"ods.orders"}
    shop.put("2.json", insert("orders", {"id": 2}))
    run(shop.spec(errors=ISOLATE))
    run(retry(shop))
    assert shop.ids("orders") == [1, 2]
    assert shop.snapshots("orders") == 2


@pytest.mark.slow
def test_a_retry_keeps_dead_letters_after_their_snapshots_expired(shop: Shop) -> None:
    letters = ISOLATE | {"bad-record": "dead-letter"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1}))
    run(shop.spec(errors=letters))
    shop.put(
        "2.json",
        insert("users", {"id": 2}),
        insert("orders", {"id": 2, "q1": "bad"}),
        insert("orders", {"id": 3, "q1": 3}),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writing, "TableTaskWriter", torn_for("ods.orders"))
        run(shop.spec(errors=letters))
    for number in range(4, 8):  # others' letters
        shop.put(f"{number}.json", insert("users", {"id": number}), "{nonsense")
        run(shop.spec(errors=letters | {"dead-letter": {"max-share": "1.0"}}))
    kept = shop.table("__penstock_dead_letters")
    kept.expire_snapshots(retain_max=1, retain_min=1)
    run(retry(shop, errors=letters | {"dead-letter": {"max-share": "1.0"}}))
    assert parking(shop).tables == {}
    assert shop.ids("orders") == [1, 3]
    targets = kept.refresh().scan().to_arrow()["target_table"].to_pylist()
    assert targets.count("ods.orders") == 1


def test_all_tables_that_cannot_be_created_are_reported_together(shop: Shop) -> None:
    shop.put("1.json", insert("a", {"id": 1, "rowkind": "x", "_LEVEL": "y"}), insert("b$c", {"id": 1}))
    with pytest.raises(ConfigError, match="2 tables cannot be created") as caught:
        run(shop.spec())
    assert caught.value.facts == {
        "ods.a": "the names 'rowkind', '_LEVEL' are reserved",
        "ods.b$c": "'b$c' cannot be the name of a table",
    }


def test_a_new_table_that_cannot_be_created_is_left_out_if_others_exist(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """With isolated tables or without; alone it stops the run, since nothing would be written at all."""
    sink = {"table-options": {"bucket": "1", "sequence.field": "name"}}
    odd = insert("odd", {"id": 1, "name": "a", "rowkind": "x"})
    shop.put("1.json", odd)
    with pytest.raises(PenstockError, match="reserved"):
        run(shop.spec(sink=sink))
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    (shop.folder / "in" / "1.json").unlink()
    fresh = {"checkpoint": "other", "sink": sink}
    shop.put("2.json", odd, insert("orders", {"id": 1, "name": "a"}), insert("nameless", {"id": 1}))
    reports: list[Any] = []
    run(shop.spec(**fresh), on_batch=lambda identity, report: reports.append(report))
    assert shop.ids("orders") == [1]
    assert shop.warehouse.tables("ods") == ["ods.orders"]
    assert set(reports[0].stats.left_out) == {"ods.odd", "ods.nameless"}
    assert reports[0].passed_over["rows.left.out"] == 2
    hints = {line.partition("table=")[2].split()[0]: line.partition("hint=")[2] for line in left_out_lines(caplog)}
    assert "Exclude it" in hints["ods.odd"]
    assert hints["ods.nameless"].startswith(
        "columns are id; remove a dropped one from the option; its rows are in no table. Exclude it"
    )
    shop.put("3.json", odd, insert("orders", {"id": 2, "name": "b"}))
    run(shop.spec(**fresh, errors=ISOLATE))
    assert shop.ids("orders") == [1, 2]
