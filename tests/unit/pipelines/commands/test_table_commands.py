"""Commands on tables: Paimon's names and flags, run on real tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.commands.main import main
from penstock.pipelines.commands.table_commands import REFUSED, TABLE_COMMANDS
from penstock.pipelines.commands.verify import _waited
from tests.invariants import check_invariants
from tests.unit.pipelines.commands.command_shop import COLUMNS, Shop

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(tmp_path, capsys)


@pytest.mark.parametrize("name", TABLE_COMMANDS)
def test_every_command_lists_its_flags(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    output = capsys.readouterr().out
    assert f"usage: penstock {name}" in output
    assert "--json" in output


def test_snapshots_expire_by_the_flags(shop: Shop) -> None:
    report = shop.json("expire_snapshots", "--retain_max=1", "--retain-min", "1", "--max-deletes=1")
    assert report["snapshots"] == 1
    assert shop.run("expire-snapshots", "--retain-max", "1").startswith("expired 1 snapshot,")
    assert [snapshot.id for snapshot in shop.orders.snapshots] == [3]
    check_invariants(shop.orders)


def test_tags_are_created_replaced_renamed_and_deleted(shop: Shop) -> None:
    assert shop.json("create-tag", "--tag-name", "t", "--snapshot", "2") == {"tag": "t", "snapshot": 2}
    shop.run("create_tag", "--tag_name", "kept", "--time_retained", "7 d")
    shop.run("create-tag-from-timestamp", "--tag", "first", "--timestamp", "0")
    shop.run("replace-tag", "--tag-name", "t", "--snapshot", "1")
    shop.run("rename-tag", "--tag-name", "t", "--target-tag-name", "u")
    assert shop.orders.tags == {"u": 1, "kept": 3, "first": 1}
    assert shop.json("expire-tags", "--older-than", "2000-01-01 00:00:00") == {"expired": []}
    assert shop.run("delete-tag", "--tag-name", "nowhere,u") == "deleted u\nthere is no tag 'nowhere'\n"
    assert shop.json("delete-tag", "--tag-name", "u") == {"deleted": [], "missing": ["u"]}
    assert shop.json("expire-tags", "--older-than", "2100-01-01 00:00:00") == {"expired": ["first", "kept"]}
    assert shop.orders.tags == {}
    assert "watermark 5" in shop.run("create-tag-from-watermark", "--tag", "w", "--watermark", "5", expect=2)


def test_a_table_rolls_back_to_a_snapshot_a_tag_or_a_time(shop: Shop) -> None:
    shop.run("create-tag", "--tag-name", "second", "--snapshot", "2")
    at = shop.orders.snapshots[0].time_millis
    shop.run("create-tag", "--tag-name", "third", "--snapshot", "3")
    shop.run("reset-consumer", "--consumer-id", "reader", "--next-snapshot", "4")
    done = shop.json("rollback-to", "--version", "second")
    assert done == {
        "snapshot": 2,
        "removed_snapshots": [3],
        "removed_tags": ["third"],
        "consumers_set_back": {"reader": 3},
    }
    assert shop.values() == ["a1", "a2", "b1", "b2"]
    output = shop.run("rollback-to-timestamp", "--timestamp", str(at))
    assert "snapshot 1 is the latest again; removed snapshot 2; removed tags second" in output
    assert "snapshot 9 does not exist" in shop.run("rollback-to", "--version", "9", expect=2)
    check_invariants(shop.orders)


def test_a_branch_starts_at_a_tag_and_is_fast_forwarded(shop: Shop) -> None:
    shop.run("create-tag", "--tag-name", "base", "--snapshot", "1")
    shop.run("create-branch", "--branch-name", "dev", "--tag-name", "base")
    assert not shop.json("create-branch", "--branch-name", "dev", "--ignore-if-exists")["created"]
    shop.run("compact", table="orders$branch_dev")
    assert shop.json("fast-forward", "--branch-name", "dev")["snapshot"] == 2
    assert shop.values() == ["a1", "b1"]
    shop.run("delete-branch", "--branch-name", "dev")
    assert shop.orders.branches == []


def test_consumers_are_reset_and_removed(shop: Shop) -> None:
    for name in ("one", "two"):
        shop.run("reset-consumer", "--consumer-id", name, "--next-snapshot", "2")
    assert shop.json("clear-consumers", "--including-consumers", "", "--excluding-consumers", "t.*") == {
        "cleared": ["one"]
    }
    assert "not a regular expression" in shop.run("clear-consumers", "--including-consumers", "[", expect=2)
    assert "snapshot ids start at 1" in shop.run(
        "reset-consumer", "--consumer-id", "two", "--next-snapshot", "0", expect=2
    )
    assert shop.run("reset-consumer", "--consumer-id", "tow") == "there is no consumer 'tow'\n"
    assert shop.run("reset-consumer", "--consumer-id", "two") == "deleted consumer two\n"
    assert shop.orders.consumers == {}


def test_orphans_of_all_tables_are_listed_before_they_are_deleted(shop: Shop) -> None:
    shop.make("more")
    lost = [Path(shop.warehouse) / "shop.db" / name / "dt=a/bucket-0/data-x-0.parquet" for name in ("orders", "more")]
    for path in lost:
        path.write_bytes(b"lost")
    late = ["--older-than", "2100-01-01 00:00:00"]
    assert shop.run("remove-orphan-files", table=None).startswith("0 orphan files")
    report = shop.json("remove-orphan-files", *late, "--dry-run", table=None)
    assert (report["files"], report["deleted"]) == (2, False)
    shop.run("remove-orphan-files", *late, expect=2)
    assert [path.exists() for path in lost] == [True, True]
    for path in lost:
        os.utime(path, (1, 1))
    assert shop.json("remove-orphan-files")["files"] == 1
    assert [path.exists() for path in lost] == [False, True]


def test_partitions_are_dropped_by_name(shop: Shop) -> None:
    shop.run("drop-partition", "--partition", "dt=a")
    assert shop.values() == ["b1", "b2", "b3"]
    assert "--partition is required" in shop.run("drop-partition", expect=2)
    assert "is not a partition column" in shop.run("drop-partition", "--partition", "x=1", expect=2)
    assert "contains a column twice" in shop.run("drop-partition", "--partition", "dt=a,dt=b", expect=2)
    assert shop.values() == ["b1", "b2", "b3"]


def test_partitions_expire_by_update_time(shop: Shop) -> None:
    flags = ["--expire_strategy", "update-time", "--expiration_time"]
    assert shop.json("expire-partitions", *flags, "1 d") == {"partitions": []}
    assert "the time after which partitions expire is not set" in shop.run("expire-partitions", expect=2)
    report = shop.json("expire-partitions", *flags, "0 ms", "--max-expires", "1")
    assert report == {"partitions": [{"dt": "a"}]}
    report = shop.json(
        "expire-partitions", "--table-conf", "partition.expiration-strategy=update-time", *flags[2:], "0 s"
    )
    assert report == {"partitions": [{"dt": "b"}]}
    assert shop.values() == []


def test_metadata_is_repaired(shop: Shop) -> None:
    assert len(shop.json("compact-manifest", "--dry-run")["paths"]) == 3
    assert shop.json("compact-manifest")["snapshot"] == 4
    assert shop.run("compact_manifest") == "0 manifests to merge\n"
    assert shop.run("compact_manifest", "--options", "manifest.target-file-size=1kb") == "0 manifests to merge\n"
    lost = next(Path(shop.orders.path).glob("dt=a/bucket-0/data-*"))
    lost.unlink()
    assert shop.json("remove-unexisting-files", "--partition", "dt=b")["paths"] == []
    assert shop.json("remove-unexisting-files", "--dry-run") == {"paths": [str(lost)], "snapshot": None}
    assert shop.json("remove-unexisting-files")["snapshot"] == 5
    assert len(shop.values()) == 5
    assert shop.json("remove-unexisting-manifests") == {"paths": [], "snapshot": None}


def test_partitions_are_marked_as_done(shop: Shop) -> None:
    assert shop.json("mark-partition-done", "--partition", "dt=a") == {"partitions": [{"dt": "a"}]}
    assert (Path(shop.orders.path) / "dt=a" / "_SUCCESS").is_file()


@pytest.mark.slow
def test_changelogs_expire_by_themselves(shop: Shop) -> None:
    keep = {"changelog.num-retained.min": "10", "changelog.num-retained.max": "20", "changelog-producer": "input"}
    table = shop.catalog.create_table("shop.log", COLUMNS, ["dt", "id"], ["dt"], {"bucket": "1", **keep})
    for number in range(1, 6):
        with table.writer(commit_user="etl") as writer:
            writer.write(shop.rows(number))
            writer.commit()
    shop.run("expire-snapshots", "--retain-max", "1", "--retain-min", "1", table="log")
    assert table.changes(1, 4).num_rows == 6
    few = ["--retain-max", "3", "--retain-min", "1"]
    assert shop.json("expire-changelogs", *few, table="log")["changelogs"] == 3  # the fifth commit compacted: six ids
    assert shop.json("expire-changelogs", "--delete-all", table="log")["changelogs"] == 2
    assert shop.json("expire-changelogs", "--delete-all", table="log")["changelogs"] == 0
    check_invariants(table)


def test_a_table_is_copied_file_by_file(shop: Shop, tmp_path: Path) -> None:
    to = ["--target-warehouse", str(tmp_path / "copied")]
    assert shop.json("copy-files", *to)["tables"] == {"shop.orders": "shop.orders"}
    copied = penstock.Catalog(str(tmp_path / "copied")).table("shop.orders")
    assert copied.scan().to_arrow().num_rows == 6


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_actions_report_the_reason(shop: Shop, name: str) -> None:
    output = shop.words(name, "--warehouse", shop.warehouse, expect=2)
    assert output.startswith(f"error: {name} is not supported: ")


def test_tables_of_other_formats_are_not_cloned(shop: Shop) -> None:
    assert "metastore" in shop.run("clone", "--target-database", "x", "--clone-from", "hive", expect=2)


def test_a_warehouse_shows_its_tables(shop: Shop) -> None:
    output = shop.words("tables", shop.warehouse)
    assert "shop.orders" in output
    [table] = json.loads(shop.words("tables", "--warehouse", shop.warehouse, "--json"))["tables"]
    assert (table["records"], table["snapshot"], table["keys"]) == (6, 3, "dt, id")


def test_a_table_shows_columns_options_snapshots_and_files(shop: Shop) -> None:
    shop.run("create-tag", "--tag-name", "t")
    output = shop.words("show", "shop.orders", "--warehouse", shop.warehouse)
    for part in ("DECIMAL(10, 2)", "write-only", "what was ordered", "APPEND", "level", "tags"):
        assert part in output
    facts = json.loads(shop.words("show", "shop.orders", "--warehouse", shop.warehouse, "--json", "--snapshots", "2"))
    assert [snapshot["snapshot"] for snapshot in facts["snapshots"]] == [2, 3]
    assert facts["levels"][0]["files"] == 6
    assert facts["tags"] == {"t": 3}


def test_a_table_to_show_is_named_by_a_word_or_by_flags(shop: Shop) -> None:
    where = ["--warehouse", shop.warehouse]
    flags = ["--database", "shop", "--table", "orders"]
    assert shop.words("show", *flags, *where) == shop.words("show", "shop.orders", *where)
    assert "without --table" in shop.words("show", *flags[:2], *where, expect=2)
    assert "without --database" in shop.words("show", *flags[2:], *where, expect=2)
    assert "both shop.orders and --database" in shop.words("show", "shop.orders", *flags, *where, expect=2)


@pytest.mark.slow
def test_rows_are_deleted_by_a_condition(shop: Shop) -> None:
    assert shop.json("delete", "--where", "`id` = 2 and dt = 'a'") == {"snapshots": [4]}
    assert shop.values() == ["a1", "a3", "b1", "b2", "b3"]
    assert shop.run("delete", "--where", "id = 77") == "no row matches the condition\n"
    assert "cannot be parsed" in shop.run("delete", "--where", "nowhere = 1", expect=2)


@pytest.mark.slow
def test_rows_are_deleted_by_a_query_over_other_tables(shop: Shop) -> None:
    shop.make("gone", commits=1)
    view = "CREATE TEMPORARY VIEW S AS SELECT id FROM gone WHERE dt = 'a'"
    where = ("--where", "id IN (SELECT id FROM S) AND dt = 'b'")
    assert shop.json("delete", "--source-sql", view, *where) == {"snapshots": [4]}
    assert shop.values() == ["a1", "a2", "a3", "b2", "b3"]
    assert shop.run("delete", "--source-sql", view, *where) == "no row matches the condition\n"
    check_invariants(shop.orders)


@pytest.mark.slow
def test_tables_are_merged_by_paimons_flags(shop: Shop) -> None:
    shop.make("news", commits=4)
    flags = [
        *("--target_as", "T", "--source_sql", "CREATE TEMPORARY VIEW S AS SELECT * FROM news WHERE dt = 'a'"),
        *("--source_table", "S", "--on", "T.dt = S.dt AND T.id = S.id"),
        *("--merge_actions", "matched-upsert,matched-delete,not-matched-insert,not-matched-by-source-delete"),
        *("--matched_upsert_condition", "S.id = 1", "--matched_upsert_set", "v = S.v || ', new'"),
        *("--matched_delete_condition", "S.id = 2", "--not_matched_insert_values", "*"),
        *("--not_matched_by_source_delete_condition", "T.id < 3"),
    ]
    assert shop.json("merge-into", *flags, "--sink-parallelism", "2") == {"snapshots": [4]}
    assert shop.values() == ["a1, new", "a3", "a4", "b3"]
    check_invariants(shop.orders)
    wrong = [*flags[:9], "matched-explode"]
    assert "is not a merge action" in shop.run("merge-into", *wrong, expect=2)


def test_a_partition_is_rescaled(shop: Shop) -> None:
    assert shop.json("rescale", "--bucket-num", "3", "--partition", "dt=a") == {"snapshots": [4]}
    assert shop.values() == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert "select the partition" in shop.run("rescale", "--bucket-num", "3", expect=2)
    again = shop.run("rescale", "--bucket-num", "5", "--partition", "dt=b")
    assert "writers are refused until it is 5" in again


@pytest.mark.slow
def test_a_table_and_a_whole_warehouse_are_cloned(shop: Shop, tmp_path: Path) -> None:
    to = ["--target-warehouse", str(tmp_path / "copy")]
    shop.run("clone", *to, "--target-table", "some", "--where", "dt = 'a'", "--target-table-conf", "bucket=2")
    copy = penstock.Catalog(str(tmp_path / "copy"))
    assert copy.table("shop.some").scan().to_arrow().num_rows == 3
    assert copy.table("shop.some").options["bucket"] == "2"
    report = json.loads(shop.words("clone", "--warehouse", shop.warehouse, *to, "--json"))
    assert report["tables"] == {"shop.orders": "shop.orders"}
    assert "exists already" in shop.words("clone", "--warehouse", shop.warehouse, *to, expect=2)
    shop.words("clone", "--warehouse", shop.warehouse, *to, "--clone-if-exists", "--meta-only")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sql", "select * from shop.ordrs"], "did you mean shop.orders?"),
        (["sql", "select * from orders"], "did you mean shop.orders?"),
        (["sql", "select * from a.b, shop.orders"], "there is no table a.b"),
        (["sql", "select nothing from shop.orders"], "the SQL cannot be parsed"),
        (["sql", "OPTIMIZE shop.orders"], "CALL sys.compact"),
        (["sql", " "], "no query is given"),
        (["show", "shop.orders$files"], "penstock sql 'select * from shop.orders$files'"),
        (["sql", "select * from a.b", "--warehouse", "nowhere"], "check the path of the warehouse"),
        (["compact-database", "--warehouse", "nowhere"], "the warehouse does not exist"),
        (["tables", "nowhere"], "the warehouse does not exist"),
        (["show", "a.b", "--warehouse", "nowhere"], "is the warehouse's path right?"),
    ],
)
def test_showing_something_missing_reports_what_exists(
    shop: Shop, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--warehouse" in words or "nowhere" in words else ["--warehouse", shop.warehouse]
    assert main([*words, *where]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tables", "WAREHOUSE", "--warehouse", "other"], "--warehouse has two values: 'other'"),
        (["tables", "--warehouse", "WAREHOUSE", "--warehouse", "other"], "and 'other'"),
        (["tables", "--warehouse", "WAREHOUSE", "--catalog-conf", "warehouse=other"], "--catalog-conf warehouse=other"),
        (["sql", "SELECT 1", "--json", "--output", "csv", "--warehouse", "WAREHOUSE"], "--json and --output csv"),
        (["sql", "DROP TABLE shop.orders", "--limit", "-1", "--warehouse", "WAREHOUSE"], "--limit -1 is too small"),
        (["show", "shop.orders", "--snapshots", "0", "--warehouse", "WAREHOUSE"], "--snapshots 0 is too small"),
    ],
)
def test_flags_that_contradict_each_other_are_refused_before_anything_is_done(
    shop: Shop, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([shop.warehouse if word == "WAREHOUSE" else word for word in words]) == 2
    assert message in capsys.readouterr().err
    assert shop.words("tables", shop.warehouse, "--warehouse", shop.warehouse)  # twice the same is no contradiction
    for same in (f"{shop.warehouse}/", f"file://{shop.warehouse}"):
        assert shop.words("tables", "--warehouse", shop.warehouse, "--catalog-conf", f"warehouse={same}")
    assert "shop.orders" in shop.words("tables", shop.warehouse)


def test_a_table_without_a_warehouse_is_an_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "shop.orders"]) == 2
    assert "--warehouse PATH" in capsys.readouterr().err


def test_json_contains_every_column_and_is_valid(shop: Shop) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    query = "select a.id, b.id, 'nan'::double as n, '-inf'::float as i, {'x': 'nan'::double} as s"
    output = shop.words(
        "sql", f"{query} from shop.orders a, shop.orders b where a.id = 1 and b.id = 2 limit 1",
        "--warehouse", shop.warehouse, "--json",
    )  # fmt: skip
    found = json.loads(output, parse_constant=refuse)
    assert len(found["columns"]) == 5
    assert found["rows"] == [[1, 2, "nan", "-inf", {"x": "nan"}]]


def test_a_switch_does_not_consume_the_next_word(shop: Shop) -> None:
    assert json.loads(shop.words("tables", "--json", shop.warehouse))["tables"]
    assert json.loads(shop.words("sql", "--json", "select 1 as one", "--warehouse", shop.warehouse))["rows"] == [[1]]
    assert shop.words("tables", "--json", "false", shop.warehouse).startswith("table ")


def test_an_error_is_printed_as_json_and_its_class_sets_the_exit_code(shop: Shop) -> None:
    report = json.loads(shop.run("compact", "--json", table="nowhere", expect=2))
    assert report["error"] == "TableMissing"
    assert report["message"] == "there is no table"
    (Path(shop.warehouse) / "shop.db/orders/snapshot/snapshot-3").write_text("{")
    assert "error:" in shop.run("compact", expect=6)


@pytest.mark.slow
def test_the_command_runs_as_a_process(shop: Shop) -> None:
    words = ["-m", "penstock.pipelines.commands.main", "show", "shop.orders", "--warehouse", shop.warehouse, "--json"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["table"] == "shop.orders"


def test_the_file_of_a_pipeline_names_the_warehouse(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "source: {type: files, path: /in, value.format: canal-json}\n"
        f"sink: {{catalog: {{warehouse: {shop.warehouse}, options: {{local.sync: 'false'}}}}, database: shop}}\n"
    )
    assert "shop.orders" in shop.words("tables", "--pipeline", str(file))
    assert "what was ordered" in shop.words("show", "shop.orders", "--pipeline", str(file))
    output = shop.words("sql", "select count(*) as n from shop.orders", "--pipeline", str(file))
    assert output.split() == ["n", "-", "6"]


@pytest.mark.parametrize(("written", "wanted"), [("90", 90.0), ("5min", 300.0), ("90 s", 90.0)])
def test_verify_waits_for_the_configured_time(written: str, wanted: float) -> None:
    assert _waited({"wait": [written]}) == wanted
    assert _waited({}) == 60.0
    with pytest.raises(ConfigError, match="is not a duration"):
        _waited({"wait": ["soon"]})


def test_repair_is_for_a_hive_metastore(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", "--warehouse", str(shop.warehouse)]) != 0
    assert "repair is for metastore=hive" in capsys.readouterr().err


def test_a_merge_that_a_table_does_not_allow_is_refused_before_spark_starts(shop: Shop) -> None:
    shop.catalog.create_table("shop.log", COLUMNS)
    flags = ("--source-table", "orders", "--on", "log.id = orders.id", "--merge-actions", "matched-delete")
    said = shop.run("merge-into", *flags, "--master", "local[1]", table="log", expect=2)
    assert "only a table with a primary key can be merged into" in said
    assert "needs Spark" in shop.run("merge-into", *flags, "--spark-conf", "a=b", table="log", expect=2)


def test_a_merge_beside_an_older_spark_runs_on_duckdb(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.pipelines.spark.versions.pyspark_version", lambda: "4.2.1")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    flags = ("--target-as", "t", "--source-table", "orders", "--on", "t.dt = orders.dt AND t.id = orders.id")
    flags = (*flags, "--merge-actions", "matched-delete", "--matched-delete-condition", "t.id = 1")
    assert shop.json("merge-into", *flags) == {"snapshots": [4]}
    assert "event=merge_without_spark spark=4.2 needed=4.3" in caplog.text
    assert "needs Spark 4.3 or newer" in shop.run("merge-into", *flags, "--master", "local[1]", expect=2)


def test_statistics_of_columns_are_stored(shop: Shop) -> None:
    assert shop.json("analyze", "--columns", "id, v") == {"snapshots": [4]}
    (found,) = shop.orders.refresh().statistics.column("colstat").to_pylist()
    assert set(json.loads(found)) == {"id", "v"}
    assert "no column 'w'" in shop.run("analyze", "--columns", "w", expect=2)
