"""The record of filled tables in a checkpoint: lost messages that cannot be copied again are reported."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import DecodeError, StoreError
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.commands.main import main
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.yaml_file import load
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.commit_phase import CommitPhase
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.checkpoint_folder import FILLED_TABLES, CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.table_marks import Mark, condition_of
from penstock.pipelines.tasks.batch_result import BatchResult
from tests.here import note_as_spark_does, run
from tests.shop import Shop, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    for number in (1, 2):
        shop.put(f"{number}.json", insert("orders", {"id": number}), insert("users", {"id": number}))
        run(shop.spec())
    shop.put("3.json", insert("orders", {"id": 3}), insert("users", {"id": 3}))
    return shop


def kept(shop: Shop) -> FilledTables:
    return FilledTables.of(CheckpointFolder(f"{shop.folder}/checkpoint"), shop.warehouse)


def dropped(shop: Shop) -> PipelineSpec:
    shutil.rmtree(shop.table("orders").path)
    return shop.spec()


def made_anew(shop: Shop) -> PipelineSpec:
    schema = shop.table("orders").store.schema()
    shutil.rmtree(shop.table("orders").path)
    shop.warehouse.created("ods.orders", replace(schema, time_millis=17))
    return shop.spec()


def rolled_back(shop: Shop) -> PipelineSpec:
    shop.table("orders").rollback_to(1)
    return shop.spec()


def written_by_another(shop: Shop) -> PipelineSpec:
    """Snapshots of another job have the ids of those that were removed, and later ones."""
    for number in range(3):
        with shop.table("orders").writer(commit_user="another") as writer:
            writer.write(pa.table({"id": pa.array([-number], pa.int64())}))
            writer.commit(number)
    return shop.spec()


def rolled_back_and_written(shop: Shop) -> PipelineSpec:
    rolled_back(shop)
    return written_by_another(shop)


def made_anew_and_written(shop: Shop) -> PipelineSpec:
    made_anew(shop)
    return written_by_another(shop)


def another_database(shop: Shop) -> PipelineSpec:
    return shop.spec(sink={"database": "dwh"})


def another_prefix(shop: Shop) -> PipelineSpec:
    return shop.spec(sink={"naming": {"table-prefix": "x_"}})


def another_warehouse(shop: Shop) -> PipelineSpec:
    return shop.spec(sink={"catalog": {"warehouse": f"{shop.folder}/elsewhere"}})


def left_out_for_a_while(shop: Shop) -> PipelineSpec:
    run(shop.spec(selection={"excluding-tables": "orders"}))
    return shop.spec()


CHANGES = [
    (dropped, "the table does not exist"),
    (made_anew, "the table was created again, and is empty"),
    (rolled_back, "the table was rolled back to before the pipeline's last commit"),
    (another_database, "the rows of its source went to ods.orders so far"),
    (another_prefix, "the rows of its source went to ods.orders so far"),
    (another_warehouse, "the table does not exist"),
    (left_out_for_a_while, "a source table was left out for a while"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_table_that_lacks_messages_stops_the_run_before_a_batch(
    shop: Shop, change: Callable[[Shop], PipelineSpec], reason: str
) -> None:
    spec = change(shop)
    with pytest.raises(CheckpointMismatch) as error:
        run(spec)
    assert error.value.exit_code == 9
    assert reason in error.value.facts.values()
    assert all(word in str(error.value.hint) for word in ("--from", "--accept-replay", "--resume-from-tables"))
    run(spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update={"accept_gap": True})}))
    shop.put("4.json", insert("orders", {"id": 4}))
    run(spec)  # what was accepted once is not asked again


@pytest.mark.slow
def test_a_new_name_without_messages_yet_is_not_refused_twice(shop: Shop) -> None:
    run(shop.spec())
    spec = another_prefix(shop)
    run(spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update={"accept_gap": True})}))
    run(spec)
    shop.put("4.json", insert("orders", {"id": 4}))
    run(spec)
    assert shop.ids("x_orders") == [4]
    shutil.rmtree(shop.table("x_orders").path)
    with pytest.raises(CheckpointMismatch):
        run(spec)


@pytest.mark.slow
def test_a_new_name_whose_first_batch_is_repeated_is_known(shop: Shop) -> None:
    run(shop.spec())
    spec = another_prefix(shop)
    run(spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update={"accept_gap": True})}))
    shop.put("4.json", insert("orders", {"id": 4}), "not a message")
    with pytest.raises(DecodeError):
        run(spec)
    lenient = shop.spec(sink={"naming": {"table-prefix": "x_"}}, errors={"bad-record": "skip"})
    run(lenient)
    run(lenient)
    assert shop.ids("x_orders") == [4]


@pytest.mark.slow
def test_unchanged_tables_are_accepted(shop: Shop) -> None:
    run(shop.spec())
    shop.put("4.json", insert("orders", {"id": 4}), insert("fresh", {"id": 4}))
    run(shop.spec())
    shop.put("5.json", insert("fresh", {"id": 5}))
    run(shop.spec())
    assert (shop.ids("orders"), shop.ids("fresh")) == ([1, 2, 3, 4], [4, 5])
    assert kept(shop).sources == {("shop", name): f"ods.{name}" for name in ("orders", "users", "fresh")}


@pytest.mark.slow
def test_expired_snapshots_are_not_a_rollback(shop: Shop) -> None:
    for number in range(4, 7):  # orders alone goes on: the other table's mark grows old
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        run(shop.spec())
    table = shop.table("orders")
    mark = kept(shop).marks["ods.orders"]
    assert mark.snapshot == table.latest_snapshot.id  # type: ignore[union-attr]
    filled = kept(shop)
    filled.marks["ods.orders"] = Mark(mark.created, 1, mark.user, 0)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert condition_of(filled.warehouse, "ods.orders", filled.marks["ods.orders"]) == "same"


def test_the_same_table_under_another_name_continues(shop: Shop) -> None:
    database = shop.folder / "warehouse" / "ods.db"
    (database / "orders").rename(database / "bookings")
    spec = shop.spec(sink={"naming": {"table-mapping": {"orders": "bookings"}}})
    run(spec)
    assert (shop.ids("bookings"), shop.ids("users")) == ([1, 2, 3], [1, 2, 3])
    run(spec)


def test_a_checkpoint_of_an_older_version_accepts_its_tables(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    (shop.folder / "checkpoint" / FILLED_TABLES).unlink()
    note_as_spark_does(shop.folder / "checkpoint")
    with caplog.at_level(logging.WARNING):
        run(shop.spec())
    assert "event=tables_adopted" in caplog.text
    assert shop.ids("orders") == [1, 2, 3]
    caplog.clear()
    shop.put("4.json", insert("orders", {"id": 4}))
    run(shop.spec())
    assert "event=tables_adopted" not in caplog.text
    shop.table("orders").rollback_to(1)
    with pytest.raises(CheckpointMismatch):
        run(shop.spec())


def test_an_interrupted_first_batch_is_not_reported_as_an_older_version(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    (shop.folder / "checkpoint" / FILLED_TABLES).unlink()  # Spark's log of finished batches is empty too
    with caplog.at_level(logging.INFO):
        run(shop.spec())
    assert "event=first_batch_repeated" in caplog.text
    assert "a new --checkpoint makes a new plan" in caplog.text
    assert "event=tables_adopted" not in caplog.text
    assert shop.ids("orders") == [1, 2, 3]


def test_a_table_whose_first_batch_was_repeated_is_missed_when_it_is_dropped(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}), "not a message")
    with pytest.raises(DecodeError):
        run(shop.spec())
    lenient = shop.spec(errors={"bad-record": "skip"})
    run(lenient)
    assert shop.ids("orders") == [1]
    shutil.rmtree(shop.table("orders").path)
    with pytest.raises(CheckpointMismatch):
        run(lenient)


def test_a_source_table_that_first_appeared_in_a_repeated_batch_is_known(shop: Shop) -> None:
    shop.put("4.json", insert("fresh", {"id": 4}), "not a message")
    with pytest.raises(DecodeError):
        run(shop.spec())
    run(shop.spec(errors={"bad-record": "skip"}))
    assert kept(shop).sources[("shop", "fresh")] == "ods.fresh"
    mark = kept(shop).marks["ods.fresh"]
    assert mark.snapshot == shop.table("fresh").latest_snapshot.id  # type: ignore[union-attr]


def test_a_checkpoint_of_a_source_of_another_type_is_refused(shop: Shop) -> None:
    """Two pipelines into one database have one name, and so one checkpoint, unless `--name` says something else."""
    spec = shop.spec()
    kafka = {"type": "kafka", "topic": "shop", "value.format": "canal-json"}
    properties = {"properties": {"bootstrap.servers": "localhost:9"}}
    sink = {"catalog": {"warehouse": spec.sink.catalog.warehouse}, "database": "ods"}
    pipeline = {"name": "shop", "checkpoint": spec.pipeline.checkpoint}
    other = parsed({"source": kafka | properties, "sink": sink, "pipeline": pipeline})
    with pytest.raises(CheckpointMismatch, match="source has the type files, and this one has the type kafka") as error:
        run(other)
    assert "--name" in str(error.value.hint)
    assert any(finding.level == "error" and finding.code == 9 for finding in checked_spec(other))
    run(shop.spec())
    assert shop.ids("orders") == [1, 2, 3]


def test_a_record_of_an_older_version_gets_the_type_of_the_next_run(shop: Shop) -> None:
    file = shop.folder / "checkpoint" / FILLED_TABLES
    content = json.loads(file.read_text())
    del content["kind"]
    file.write_text(json.dumps(content))
    run(shop.spec())
    assert kept(shop).recorded_kind == "files"


def test_rows_that_are_left_out_beside_captured_tables_are_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    with caplog.at_level(logging.WARNING):
        run(shop.spec(selection={"including-tables": "orders"}))
        shop.put("2.json", insert("users", {"id": 2}))
        run(shop.spec(selection={"including-tables": "orders"}))
    assert "event=nothing_captured" not in caplog.text


def test_a_batch_without_rows_is_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    nothing = shop.spec(selection={"including-tables": "ordrs"})
    with caplog.at_level(logging.WARNING):
        run(nothing)
    assert caplog.text.count("event=nothing_captured rows=1") == 1
    note_as_spark_does(shop.folder / "checkpoint")
    with caplog.at_level(logging.WARNING):
        run(nothing)
    assert "event=tables_adopted" not in caplog.text


def test_the_recorded_state_is_small_and_readable(shop: Shop) -> None:
    content = json.loads((shop.folder / "checkpoint" / FILLED_TABLES).read_text())
    assert content["sources"] == [["shop", "orders", "ods.orders"], ["shop", "users", "ods.users"]]
    assert content["tables"]["ods.orders"]["batch"] == 1


@pytest.mark.slow
def test_check_and_status_report_missing_snapshots_before_a_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop.folder)
    Path("shop.yaml").write_text(
        f"version: 1\npipeline: {{name: shop, checkpoint: {shop.folder}/checkpoint}}\n"
        f"source: {{type: files, path: in, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {shop.warehouse.warehouse}}}, database: ods}}\n"
    )
    assert "is missing rows" not in _said(capsys, "status", "shop.yaml")
    shop.table("orders").rollback_to(1)
    found = list(checked_spec(load(Path("shop.yaml"))))
    (error,) = (
        item for item in found if item.level == "error" and item.about == "tables" and "ods.orders" in item.message
    )
    assert (error.code, error.message) == (
        9,
        "ods.orders: the table was rolled back to before the pipeline's last commit",
    )
    assert "ods.orders is missing rows: the table was rolled back" in _said(capsys, "status", "shop.yaml")
    named = ("status", "shop", "--warehouse", shop.warehouse.warehouse, "--checkpoint", f"{shop.folder}/checkpoint")
    assert "ods.orders is missing rows" in _said(capsys, *named)


def test_an_accepted_gap_of_a_resumed_table_does_not_stop_the_run_later(shop: Shop) -> None:
    filled = kept(shop)
    del filled.sources["shop", "orders"]  # no message of it came since the checkpoint was begun
    filled.resumed = {"ods.orders"}
    rolled_back(shop)
    filled.accept(filled.lost())
    first = shop.table("orders").latest_snapshot
    assert first is not None
    assert filled.set_back({"ods.orders": replace(first, id=2, commit_identifier=9)}, {}) == []


def _said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("undo", [rolled_back, rolled_back_and_written, made_anew, made_anew_and_written])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_table_that_is_rolled_back_during_a_run_stops_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, undo: Callable[[Shop], PipelineSpec], batch: int
) -> None:
    shop.put("4.json", insert("orders", {"id": 4}))
    numbers, take = itertools.count(), BatchDriver.take

    def after_undo(driver: BatchDriver, number: int, result: BatchResult) -> None:
        if next(numbers) == batch:
            undo(shop)
        take(driver, number, result)

    monkeypatch.setattr(BatchDriver, "take", after_undo)
    with pytest.raises(CheckpointMismatch, match="during the run") as stopped:
        run(shop.spec(pipeline={"max-batch": {"rows": 1}}))
    assert stopped.value.facts["tables"] == "ods.orders"
    # The next start says what to do, as after a rollback between two runs.
    for _ in range(2):
        with pytest.raises(CheckpointMismatch, match="lacks rows that the checkpoint counts as read"):
            run(shop.spec())


@pytest.mark.parametrize("undo", [rolled_back, rolled_back_and_written, made_anew, made_anew_and_written])
def test_a_batch_that_is_repeated_after_a_rollback_stops_the_run_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, undo: Callable[[Shop], PipelineSpec]
) -> None:
    """The repetition finds the batch in the table, as the pipeline's newest one."""
    shop.put("4.json", insert("orders", {"id": 4}))
    attempts, commit_all = itertools.count(), CommitPhase._commit_all

    def failing_once(phase: CommitPhase, *arguments: Any) -> Any:
        first = next(attempts) == 0
        if first:
            undo(shop)
        made = commit_all(phase, *arguments)
        if first:
            raise StoreError("the store does not answer")
        return made

    take = BatchDriver.take

    def retried(driver: BatchDriver, number: int, result: BatchResult) -> None:
        try:
            take(driver, number, result)
        except StoreError:
            take(driver, number, result)

    monkeypatch.setattr(CommitPhase, "_commit_all", failing_once)
    monkeypatch.setattr(BatchDriver, "take", retried)
    with pytest.raises(CheckpointMismatch, match="during the run"):
        run(shop.spec())
    assert next(attempts) == 2


def test_commits_of_other_jobs_during_a_run_do_not_stop_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.put("4.json", insert("orders", {"id": 4}))
    take = BatchDriver.take

    def after_another(driver: BatchDriver, number: int, result: BatchResult) -> None:
        written_by_another(shop)
        take(driver, number, result)

    monkeypatch.setattr(BatchDriver, "take", after_another)
    run(shop.spec(pipeline={"max-batch": {"rows": 1}}))
    assert {1, 2, 3, 4} < set(shop.table("orders").scan().to_arrow()["id"].to_pylist())
