"""The command compact: what it compacts, with how many processes, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.invariants import check_invariants
from tests.unit.pipelines.commands.command_shop import COLUMNS, Shop


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(tmp_path, capsys)


def test_one_partition_or_a_whole_database_is_compacted(shop: Shop) -> None:
    shop.make("more")
    assert shop.json("compact", "--partition", "dt=a") == {"snapshots": [4]}
    levels = {
        entry["level"]
        for entry in json.loads(shop.words("show", f"{shop.warehouse}/shop.db/orders", "--json"))["levels"]
    }
    assert levels == {0, 5}
    report = json.loads(
        shop.words("compact-database", "--warehouse", shop.warehouse, "--including-tables", r"shop\..*", "--json")
    )
    assert report == {"tables": {"shop.more": [4], "shop.orders": [5]}}
    assert shop.run("compact") == "nothing to compact\n"
    assert "full or minor" in shop.run("compact", "--compact-strategy", "huge", expect=2)
    check_invariants(shop.orders)


@pytest.mark.slow
def test_flags_for_parallelism_mean_the_same_and_must_agree(shop: Shop) -> None:
    place = ["--partition", "dt=a", "--bucket-num", "2"]
    differ = shop.run("rescale", *place, "--sink-parallelism", "2", "--scan-parallelism", "3", expect=2)
    assert "--sink-parallelism and --scan-parallelism differ" in differ
    assert shop.json("rescale", *place, "--sink-parallelism", "2", "--scan-parallelism", "2") == {"snapshots": [4]}
    shop.make("logs")
    where = ["--where", "id = 1", "--source-sql", "CREATE VIEW v AS SELECT 1"]
    assert "--parallelism cannot be used with --source-sql" in shop.run(
        "delete", *where, "--parallelism", "2", table="logs", expect=2
    )
    assert shop.json("delete", "--where", "id = 1", "--sink-parallelism", "2", table="logs") == {"snapshots": [4]}
    assert len(shop.json("copy-files", "--target-table", "copied", "--parallelism", "2", table="logs")["tables"]) == 1


def test_tables_are_compacted_in_one_job_and_watching_is_checked(shop: Shop) -> None:
    shop.make("others")
    words = ["compact-database", "--warehouse", shop.warehouse, "--mode", "Combined", "--json"]
    assert json.loads(shop.words(*words)) == {"tables": {"shop.orders": [4], "shop.others": [4]}}
    assert json.loads(shop.words(*words)) == {"tables": {"shop.orders": [], "shop.others": []}}
    assert shop.values() == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert "cannot be 'both'" in shop.words(*words[:3], "--mode", "both", expect=2)
    for flags, refused in (
        (["--watch", "--compact-strategy", "full"], "--compact-strategy full cannot be used with --watch"),
        (["--watch", "--partition-idle-time", "1 h"], "--partition-idle-time cannot be used with --watch"),
        (["--watch", "--order-strategy", "order"], "--order-strategy cannot be used with --watch"),
        (["--interval", "1 s"], "--interval needs --watch"),
        (["--parallelism", "0"], "--parallelism cannot be 0"),
        (["--parallelism", "many"], "is not an integer"),
        (["--spark-conf", "a=b"], "--spark-conf needs Spark"),
    ):
        assert refused in shop.run("compact", *flags, expect=2)


def test_compaction_chooses_by_condition_bucket_and_idle_time(shop: Shop) -> None:
    assert shop.run("compact", "--where", "dt = 'z'") == "nothing to compact\n"
    assert "the table has no bucket 1\n" in shop.run("compact", "--buckets", "0-9", expect=2)
    assert shop.run("compact", "--partition-idle-time", "1 h") == "nothing to compact\n"
    assert "cannot be used together" in shop.run("compact", "--where", "dt = 'a'", "--partition", "dt=a", expect=2)
    flags = ["--where", "dt = 'a'", "--buckets", "0", "--partition_idle_time", "0 ms"]
    assert shop.json("compact", *flags, "--table-conf", "num-levels=3") == {"snapshots": [4]}
    for command, flag in (("compact", "table-conf"), ("expire-snapshots", "options"), ("compact-manifest", "options")):
        assert "did you mean num-levels" in shop.run(command, f"--{flag}", "num-level=3", expect=2)
    assert shop.run("compact", "--order-strategy", "zorder", "--order-by", "v", expect=2).startswith(
        "error: only append tables with bucket = -1"
    )
    files = shop.orders.system("files").to_pylist()
    assert {entry["level"] for entry in files if entry["partition"] == "{a}"} == {2}


def test_an_append_table_is_sorted(shop: Shop) -> None:
    table = shop.catalog.create_table("shop.log", COLUMNS, [], [], {"bucket": "-1"})
    for number in (3, 1, 2):
        with table.writer() as writer:
            writer.write(shop.rows(number))
            writer.commit()
    assert shop.json("compact", "--order-strategy", "order", "--order-by", "v", table="log") == {"snapshots": [4]}
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == ["a1", "a2", "a3", "b1", "b2", "b3"]
    wrong = ["--order-strategy", "order", "--order-by", "v", "--partition-idle-time", "1 h"]
    assert "does not support" in shop.run("compact", *wrong, table="log", expect=2)
