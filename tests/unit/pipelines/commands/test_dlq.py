"""`penstock dlq`: dead letters are listed, replayed and dropped."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api import dead_letters, replay_dead_letters
from penstock.pipelines.api.dead_letters import letters_of
from penstock.pipelines.api.replay_dead_letters import begun_of, ended, finished, replay
from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.ledger.unfinished_replay import check_replay
from penstock.pipelines.tasks.dead_letter_table import ensure
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.meta.snapshot import PIPELINE, Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.schema.changes import UpdateColumnType, evolve
from penstock.table.values.types import parse_type
from tests.here import run
from tests.integration.failing_calls import Killed, die
from tests.shop import Shop, change, insert

LETTERS = "__penstock_dead_letters"
FILE = """
pipeline: {{name: shop, until: caught-up}}
source: {{type: files, path: {folder}/in, value.format: canal-json}}
sink: {{catalog: {{warehouse: {folder}/warehouse}}, database: ods, table-options: {{bucket: "1"}}}}
errors: {{bad-record: dead-letter}}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    Path("shop.yaml").write_text(FILE.format(folder=tmp_path))
    shop.put(
        "1.json", insert("orders", {"id": 1, "q1": 5}), "{nonsense", insert("orders", {"id": 2, "q1": "9000000000"})
    )
    run(yaml_file.load(Path("shop.yaml")))
    return shop


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["dlq", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def widened(shop: Shop, to: str = "BIGINT", column: str = "q1") -> None:
    """The repair that makes the second letter fit."""
    store = shop.table("orders").store
    evolve(store.schemas, [UpdateColumnType(column, parse_type(to))], has_snapshots=True, now=0)


def test_dead_letters_are_counted_by_table_and_reason(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    facts = answered(capsys, "shop.yaml", "list")
    assert facts["letters"] == 2
    assert {(fact["target"], fact["reason"]) for fact in facts["groups"]} == {
        (None, "not-json"),
        ("ods.orders", "bad-value"),
    }
    by_name = answered(capsys, "shop", "list", "--warehouse", f"{shop.folder}/warehouse")
    assert by_name["letters"] == 2


def test_dead_letters_of_a_named_pipeline_are_found_in_any_database(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("shop", "list", "--warehouse", f"{shop.folder}/warehouse")
    for database in ("a", "z"):
        ensure(shop.warehouse, f"{database}.{LETTERS}")
    assert answered(capsys, *words)["letters"] == 2
    status = CheckpointFolder(f"{shop.folder}/warehouse/_penstock/shop")
    status.put_status({"state": "stopped", "dead_letter_table": f"ods.{LETTERS}"})
    assert answered(capsys, *words)["table"] == f"ods.{LETTERS}"


def test_dead_letters_of_two_tables_need_the_name_of_one(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    ensure(shop.warehouse, f"a.{LETTERS}")
    with Table(shop.warehouse.store(f"a.{LETTERS}")).writer(commit_user="shop") as writer:
        writer.write(Table(shop.warehouse.store(f"ods.{LETTERS}")).scan().to_arrow())
        writer.commit()
    words = ("shop", "list", "--warehouse", f"{shop.folder}/warehouse")
    assert main(["dlq", *words]) == 2
    assert f"--table a.{LETTERS}" in capsys.readouterr().err
    assert answered(capsys, *words, "--table", f"a.{LETTERS}")["letters"] == 2


def test_dead_letters_are_shown_with_their_content(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    (letter,) = answered(capsys, "shop.yaml", "show", "--reason", "not-json")["letters"]
    assert (letter["raw_value"], letter["topic"]) == ("{nonsense", "1.json")
    assert main(["dlq", "shop.yaml", "show"]) == 0
    assert "{nonsense" in capsys.readouterr().out


def test_dead_letters_that_fit_are_written_and_the_others_kept(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    widened(shop)
    assert answered(capsys, "shop.yaml", "replay", "--dry-run")["letters"] == 2
    facts = answered(capsys, "shop.yaml", "replay", code=8)
    assert (facts["replayed"], facts["still_bad"], facts["rows"]) == (1, 1, {"ods.orders": 1})
    assert [row["q1"] for row in shop.rows("orders")] == [5, 9_000_000_000]
    (left,) = answered(capsys, "shop.yaml", "show")["letters"]
    assert (left["raw_value"], left["attempt"]) == ("{nonsense", 1)


@pytest.mark.slow
def test_dead_letters_of_a_run_with_flags_are_replayed_with_the_same_flags(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source is not asked: letters have its messages, so that no broker is needed here."""
    conf = (
        "topic=shop",
        "value.format=canal-json",
        "properties.bootstrap.servers=localhost:9",
        "scan.startup.mode=latest-offset",
    )
    flags = [
        *("--warehouse", f"{shop.folder}/warehouse", "--database", "ods", "--name", "shop"),
        *(word for item in conf for word in ("--kafka-conf", item)),
        *("--table-conf", "bucket=1", "--on-bad-record", "dead-letter"),
    ]
    assert answered(capsys, "kafka-sync-database", "list", *flags)["letters"] == 2
    widened(shop)
    assert answered(capsys, "kafka-sync-database", "replay", *flags, "--dry-run")["letters"] == 2
    facts = answered(capsys, "kafka-sync-database", "replay", *flags, code=8)
    assert (facts["replayed"], facts["still_bad"], facts["rows"]) == (1, 1, {"ods.orders": 1})
    assert [row["q1"] for row in shop.rows("orders")] == [5, 9_000_000_000]
    table = ["kafka_sync_table", "show", *flags, "--table", "orders", "--target", "ods.orders"]
    assert answered(capsys, *table)["letters"] == []
    assert main(["dlq", "kafka-sync-database", *flags, "replay"]) == 2
    said = capsys.readouterr().err
    assert "a verb is missing" in said
    assert "penstock dlq kafka-sync-database list | show | replay | drop" in said
    assert main(["dlq", "shop.yaml", "lst"]) == 2
    assert "the verb 'lst' is unknown" in capsys.readouterr().err
    assert main(["dlq", "shop", "replay", "--warehouse", f"{shop.folder}/warehouse"]) == 2
    assert "the action and its flags" in capsys.readouterr().err


def test_a_replay_killed_before_its_end_writes_nothing_twice(shop: Shop) -> None:
    widened(shop)
    spec = yaml_file.load(Path("shop.yaml"))
    table = shop.table(LETTERS)
    letters = letters_of(table.scan().to_arrow())
    replay(spec, letters, table)
    before = shop.snapshots("orders")
    table = finished(spec, table)
    (left,) = letters_of(table.scan().to_arrow())
    assert (shop.snapshots("orders"), left.position, begun_of(spec)) == (before, letters[0].position, None)


def test_a_replay_that_another_one_overtook_writes_nothing(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Both have read the letters before the first of them is settled."""
    shop.put("2.json", insert("orders", {"id": 3, "q1": "8000000000"}))
    run(yaml_file.load(Path("shop.yaml")))
    widened(shop)
    spec = yaml_file.load(Path("shop.yaml"))
    table = shop.table(LETTERS)
    letters = letters_of(table.scan().to_arrow())
    answered(capsys, "shop.yaml", "replay", "--position", letters[1].position)
    before, files = shop.snapshots("orders"), shop.files("orders")
    with pytest.raises(CheckpointInUse):
        replay(spec, letters[1:], table)
    assert (shop.snapshots("orders"), shop.files("orders"), begun_of(spec)) == (before, files, None)
    answered(capsys, "shop.yaml", "replay", code=8)
    assert shop.ids("orders") == [1, 2, 3]


def test_a_replay_beside_another_one_writes_nothing(shop: Shop) -> None:
    widened(shop)
    spec = yaml_file.load(Path("shop.yaml"))
    table = shop.table(LETTERS)
    letters = letters_of(table.scan().to_arrow())
    done = replay(spec, letters, table)
    with pytest.raises(CheckpointInUse):
        replay(spec, letters, table)
    ended(spec, "replay-another")
    assert (begun := begun_of(spec)) is not None
    assert begun.writer == done.writer


def test_a_replay_ends_although_its_last_step_was_not_reached(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Its letters are settled, so that no later letter is taken for one of them."""
    widened(shop)
    answered(capsys, "shop.yaml", "drop", "--reason", "not-json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_dead_letters, "ended", lambda *_: die())
        with pytest.raises(Killed):
            main(["dlq", "shop.yaml", "replay"])
    spec = yaml_file.load(Path("shop.yaml"))
    assert begun_of(spec) is not None
    assert answered(capsys, "shop.yaml", "replay")["letters"] == 0
    assert begun_of(spec) is None


def test_letters_of_a_table_that_was_created_again_are_replayed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of its snapshots are those of replays that the target tables have."""
    widened(shop)
    answered(capsys, "shop.yaml", "replay", code=8)
    shop.warehouse.backend.drop_table(f"ods.{LETTERS}")
    shop.put("2.json", *(insert("orders", {"id": id_, "name": "x" * 15 * id_}) for id_ in (1, 3)))
    run(yaml_file.load(Path("shop.yaml")))
    widened(shop, "STRING", "name")
    answered(capsys, "shop.yaml", "replay")
    assert shop.ids("orders") == [1, 2, 3]


def test_no_letter_is_replayed_while_a_table_is_parked(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Its rows would be written nowhere, and the record of the batches that the table lacks would be overwritten."""
    widened(shop)
    parking = ParkedTables.of(CheckpointFolder(f"{shop.folder}/warehouse/_penstock/shop"))
    parking.park("ods.orders", 1, ConfigError("no space"))
    assert main(["dlq", "shop.yaml", "replay"]) == 10
    assert "--retry" in capsys.readouterr().err
    assert answered(capsys, "shop.yaml", "list")["letters"] == 2
    assert parking.missed("ods.orders") == []
    parking.release("ods.orders")
    answered(capsys, "shop.yaml", "replay", code=8)
    assert shop.ids("orders") == [1, 2]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_replay_that_cannot_be_finished_ends_with_its_letters(
    shop: Shop, is_gone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then no table is emptied, so that a table that only this releases would be parked for ever."""
    widened(shop)
    killed_before_it_settles()
    spec = yaml_file.load(Path("shop.yaml"))
    parking = ParkedTables.of(CheckpointFolder(spec.checkpoint))
    parking.park("ods.orders", 1, ConfigError("no space"))
    assert main(["dlq", "shop.yaml", "replay"]) == 10
    assert "penstock dlq FILE drop" in capsys.readouterr().err
    with pytest.raises(CheckpointInUse, match="penstock dlq FILE drop"):
        check_replay(CheckpointFolder(spec.checkpoint))
    answered(capsys, "shop.yaml", "drop", "--dry-run")
    answered(capsys, "shop.yaml", "drop", "--reason", "not-json")
    assert begun_of(spec) is not None
    if is_gone:
        shop.warehouse.backend.drop_table(f"ods.{LETTERS}")
    answered(capsys, "shop.yaml", "replay" if is_gone else "drop")
    check_replay(CheckpointFolder(spec.checkpoint))


def test_a_table_that_fails_ends_a_replay(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would park it, and the letters of its rows would be gone."""
    widened(shop)
    Path("shop.yaml").write_text(
        FILE.replace("dead-letter}}", "dead-letter, isolate: true}}").format(folder=shop.folder)
    )
    monkeypatch.setattr(Committer, "commit", refused)
    assert main(["dlq", "shop.yaml", "replay"]) == 2
    assert len(letters_of(shop.table(LETTERS).scan().to_arrow())) == 2
    assert not CheckpointFolder(f"{shop.folder}/warehouse/_penstock/shop").parked()


def refused(*_: object, **__: object) -> None:
    raise ConfigError("no space")


def killed_before_it_settles(*flags: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead_letters, "settle", lambda *_: die())
        with pytest.raises(Killed):
            main(["dlq", "shop.yaml", "replay", *flags])


@pytest.mark.slow
def test_a_replay_that_was_killed_is_finished_before_new_letters_are_replayed(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.put("2.json", *(insert("sums", {"id": 1, "q1": number}) for number in (1, "8000000000", "9000000000")))
    summed = "table-options: {{bucket: '1', merge-engine: aggregation, fields.q1.aggregate-function: sum}}"
    Path("shop.yaml").write_text(FILE.replace('table-options: {{bucket: "1"}}', summed).format(folder=shop.folder))
    run(yaml_file.load(Path("shop.yaml")))
    evolve(shop.table("sums").store.schemas, [UpdateColumnType("q1", parse_type("BIGINT"))], has_snapshots=True, now=0)
    killed_before_it_settles("--target", "ods.sums")
    shop.put("3.json", insert("sums", {"id": 1, "q1": "x"}))
    run(yaml_file.load(Path("shop.yaml")))
    answered(capsys, "shop.yaml", "replay", code=8)
    assert shop.rows("sums") == [{"id": 1, "q1": 17_000_000_001}]
    assert answered(capsys, "shop.yaml", "list", "--target", "ods.sums")["letters"] == 1
    answered(capsys, "shop.yaml", "replay", code=8)
    assert shop.rows("sums") == [{"id": 1, "q1": 17_000_000_001}]


def test_a_letter_that_fits_only_after_a_replay_was_killed_is_written(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.put("2.json", *(insert("orders", {"id": id_, "name": "x" * 10 * id_}) for id_ in (2, 3)))
    run(yaml_file.load(Path("shop.yaml")))
    assert shop.ids("orders") == [1, 2]
    widened(shop)
    killed_before_it_settles()
    widened(shop, "STRING", "name")
    answered(capsys, "shop.yaml", "replay", code=8)
    assert shop.ids("orders") == [1, 2, 3]
    assert answered(capsys, "shop.yaml", "list")["letters"] == 1


@pytest.mark.slow
def test_a_replay_does_not_move_the_position_of_the_pipeline(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    widened(shop)
    answered(capsys, "shop.yaml", "replay", code=8)
    shop.put("2.json", insert("orders", {"id": 3, "q1": 1}))
    run(yaml_file.load(Path("shop.yaml")))
    assert shop.ids("orders") == [1, 2, 3]


def test_dropped_dead_letters_are_deleted(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, "shop.yaml", "drop", "--reason", "not-json")["dropped"] == 1
    assert answered(capsys, "shop.yaml", "list")["letters"] == 1
    assert answered(capsys, "shop.yaml", "drop", "--dry-run")["dropped"] == 1
    assert answered(capsys, "shop.yaml", "list")["letters"] == 1


def test_a_flag_that_meets_no_dead_letter_is_reported(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, "shop.yaml", "drop", "--reason", "not-jsn")["dropped"] == 0
    assert main(["dlq", "shop.yaml", "drop", "--reason", "not-jsn", "--target", "ods.orders"]) == 0
    said = capsys.readouterr().err
    assert said == "warning: no dead letter has the reason not-jsn: there are bad-value, not-json\n"
    assert main(["dlq", "shop.yaml", "show", "--reason", "not-json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("limit", ["x", "0", "-1"])
def test_a_limit_is_a_number_of_dead_letters(shop: Shop, limit: str) -> None:
    assert main(["dlq", "shop.yaml", "show", "--limit", limit]) == 2


@pytest.mark.parametrize("verb", ["drop", "replay", "list"])
def test_a_limit_is_refused_where_all_dead_letters_are_taken(
    shop: Shop, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "shop.yaml", verb, "--limit", "1"]) == 2
    assert f"--limit has no meaning for {verb}" in capsys.readouterr().err
    assert answered(capsys, "shop.yaml", "list")["letters"] == 2


@pytest.mark.slow
def test_one_dead_letter_is_called_one(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    widened(shop)
    assert main(["dlq", "shop.yaml", "replay"]) == 8
    printed = capsys.readouterr()
    assert printed.out == "1 dead letter was written, 1 is still bad\n"
    assert "warning: ods.orders: without a sequence.field the replayed rows count as the newest" in printed.err
    assert "rows that were deleted since are back" in printed.err
    assert main(["dlq", "shop.yaml", "list"]) == 0
    assert capsys.readouterr().out.startswith("1 dead letter of shop in ods.")
    assert main(["dlq", "shop.yaml", "replay", "--dry-run"]) == 0
    assert capsys.readouterr().out == "1 dead letter would be replayed\n"
    assert main(["dlq", "shop.yaml", "drop"]) == 0
    assert capsys.readouterr().out == "1 dead letter was dropped\n"
    assert main(["dlq", "shop.yaml", "drop"]) == 0
    assert capsys.readouterr().out == "0 dead letters were dropped\n"


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["deletes: history", "per-table: {ods.orders: {sequence.field: v}}"])
def test_a_replay_names_ordered_tables_in_which_deleted_rows_may_be_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sink: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    file = FILE.format(folder=tmp_path).replace("database: ods,", f"database: ods, {sink},")
    Path("shop.yaml").write_text(file)
    shop.put(
        "1.json",
        *(insert("orders", {"id": number, "v": 1, "q1": value}) for number, value in ((1, "9000000000"), (2, 5))),
    )
    run(yaml_file.load(Path("shop.yaml")))
    shop.put("2.json", change("DELETE", "orders", {"id": 1, "v": 2, "q1": 5}))
    run(yaml_file.load(Path("shop.yaml")))
    Table(shop.table("orders").store).compact()
    widened(shop)
    assert main(["dlq", "shop.yaml", "replay"]) == 0
    printed = capsys.readouterr().err
    assert "warning: ods.orders: rows that were deleted since may be back" in printed
    assert "count as the newest" not in printed
    assert sorted(row["id"] for row in shop.rows("orders") if row.get("is_current", True)) == [1, 2]


def test_a_pipeline_without_dead_letters_reports_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.yaml").write_text(FILE.format(folder=tmp_path))
    assert answered(capsys, str(tmp_path / "p.yaml"), "list")["letters"] == 0
    assert main(["dlq", str(tmp_path / "p.yaml"), "burn"]) == 2


@pytest.mark.slow
def test_status_counts_dead_letters_by_table(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    def counted() -> tuple[int, dict[str, int]]:
        capsys.readouterr()
        assert main(["status", "shop.yaml", "--offline", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        return facts["dead_letters"], {fact["table"]: fact["dead_letters"] for fact in facts["tables"]}

    letters = {f"ods.{LETTERS}": 0}
    assert counted() == (2, {"ods.orders": 1} | letters)
    widened(shop)
    answered(capsys, "shop.yaml", "replay", code=8)
    assert counted() == (1, {"ods.orders": 0} | letters)
    assert main(["status", "shop.yaml", "--offline"]) == 0
    assert "dead letters 1 (not understood 1)  ->  penstock dlq shop.yaml show" in capsys.readouterr().out
    answered(capsys, "shop.yaml", "drop")
    assert counted() == (0, {"ods.orders": 0} | letters)


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(4))
def test_dead_letters_that_still_do_not_fit_survive_a_kill_at_any_operation(
    shop: Shop, commits: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Good ones go first, so that none is written to its table twice."""
    widened(shop)
    before = sum(1 for _ in shop.table(LETTERS).store.snapshots.newest_first())
    made = SnapshotFiles.create

    def create(files: SnapshotFiles, snapshot: Snapshot) -> bool:
        if snapshot.properties.get(PIPELINE) is None and snapshot.id > before + commits:
            raise KeyboardInterrupt
        return made(files, snapshot)

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(SnapshotFiles, "create", create)
        main(["dlq", "shop.yaml", "replay"])
    kept = {item.position for item in letters_of(shop.table(LETTERS).scan().to_arrow())}
    assert any(item.startswith("1.json") for item in kept)
    facts = answered(capsys, "shop.yaml", "replay", code=8)
    assert facts["still_bad"] == 1
    (left,) = answered(capsys, "shop.yaml", "show")["letters"]
    assert left["raw_value"] == "{nonsense"
    assert left["attempt"] >= 1
    assert [row["q1"] for row in shop.rows("orders")] == [5, 9_000_000_000]


def test_rows_of_chunks_are_replayed_before_changes_of_the_log() -> None:
    """The log has a change of the same row, which is newer."""
    places = ["mysql-bin.000003:4@0", "mysql-bin.000003:4@10", "shop.orders/2@1", "shop.orders/1@7", "0/16B3748@3"]
    names = ("topic", "partition", "raw_key", "headers", "offset")
    rows = pa.table(
        {
            "source_position": places,
            "raw_value": [b"x"] * len(places),
            "attempt": [0] * len(places),
            "record_time": pa.nulls(len(places), pa.timestamp("ms")),
            **{name: pa.nulls(len(places)) for name in names},
        }
    )
    assert [letter.position for letter in letters_of(rows)] == [
        "shop.orders/1@7",
        "shop.orders/2@1",
        "0/16B3748@3",
        "mysql-bin.000003:4@0",
        "mysql-bin.000003:4@10",
    ]
