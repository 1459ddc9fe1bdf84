"""The postponed bucket (-2): files as Java lays them out, and their compaction into real buckets, judged by Java."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from tests.golden.relations import difference
from tests.golden.rows import arrow_changes
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]


def made(oracle: Oracle, folder: Path, **options: str) -> Path:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    settings = {"bucket": "-2", "postpone.default-bucket-num": "3", **named}
    return oracle.create(folder, "b.t", COLUMNS, primary_keys=["id", "p"], partition_keys=["p"], options=settings)


def write(path: Path, *rows: list[Any], user: str = "ours") -> Table:
    table = penstock.open_table(str(path))
    with table.writer(commit_user=user) as writer:
        writer.write(*arrow_changes(rows, COLUMNS))
        writer.commit()
    return table


def waiting(table: Table) -> list[Any]:
    snapshot = table.latest_snapshot
    assert snapshot is not None
    return [entry for entry in live_entries(table.store, snapshot) if entry.bucket == -2]


def test_postponed_files_have_the_layout_of_java(oracle: Oracle, tmp_path: Path) -> None:
    rows = [["+I", 3, "a", 1], ["-D", 1, "a", 2], ["+U", 3, "a", 4], ["+I", 2, "a", None]]
    ours, java = made(oracle, tmp_path / "ours"), made(oracle, tmp_path / "java")
    table = write(ours, *rows)
    oracle.write(java, rows, user="ours")
    layouts = []
    for path in (ours, java):
        [file] = oracle.files(path)
        assert re.fullmatch(r"data--u-ours-s-\d+-w-[0-9a-f-]{36}-0.avro", file.pop("file"))
        # Java tells nothing of the keys' range here; ours does no harm.
        layouts.append({name: value for name, value in file.items() if name not in {"bytes", "key_stats"}})
    assert layouts[0] == layouts[1]
    [change], [javas] = oracle.stream(ours), oracle.stream(java)
    assert difference(javas.rows, change.rows) is None
    assert oracle.read(ours).rows == []
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "options", [{}, {"changelog_producer": "lookup"}, {"merge_engine": "first-row", "ignore_delete": "true"}], ids=str
)
def test_postponed_rows_of_java_and_ours_are_merged_in_order(
    oracle: Oracle, tmp_path: Path, options: dict[str, str]
) -> None:
    """The same rows in a table of as many real buckets say what must come of them."""
    path = made(oracle, tmp_path / "postponed", **options)
    judge = made(oracle, tmp_path / "judge", **(options | {"bucket": "3"}))
    for turn in range(3):
        for number, writes in enumerate((oracle.write, write)):
            rows = [
                ["+I", (7 * turn + 3 * place + number) % 10, "ab"[place % 2], 100 * turn + 10 * number + place]
                for place in range(9)
            ]
            rows.append(["-D", turn, "a", None])
            if writes is write:
                write(path, *rows)
            else:
                oracle.write(path, rows)
            oracle.write(judge, rows)
        table = penstock.open_table(str(path))
        table.compact(full=turn == 2)
        assert not waiting(table)
        assert difference(oracle.read(judge), oracle.read(path)) is None
        assert difference(oracle.read(judge), table.scan().to_arrow()) is None
    check_invariants(table, oracle=oracle)
    files = oracle.files(path)
    assert {(file["partition"]["p"], file["bucket"]) for file in files} == {
        (file["partition"]["p"], file["bucket"]) for file in oracle.files(judge)
    }


def test_a_partition_keeps_its_number_of_buckets_when_the_default_changes(oracle: Oracle, tmp_path: Path) -> None:
    path = made(oracle, tmp_path)
    table = write(path, *[["+I", number, "a", 1] for number in range(30)])
    table.compact()
    oracle.alter(path, [{"kind": "set", "key": "postpone.default-bucket-num", "value": "5"}])
    table = write(path, *[["+I", number, partition, 2] for number in range(40) for partition in "ab"])
    table.compact()
    buckets: dict[str, set[int]] = {}
    for file in oracle.files(path):
        buckets.setdefault(file["partition"]["p"], set()).add(file["bucket"])
    assert buckets == {"a": {0, 1, 2}, "b": {0, 1, 2, 3, 4}}
    assert len(oracle.read(path).rows) == 80


def test_a_lookup_changelog_is_written_by_the_compaction(oracle: Oracle, tmp_path: Path) -> None:
    path = made(oracle, tmp_path, changelog_producer="lookup")
    write(path, ["+I", 1, "a", 1], ["+I", 2, "a", 1]).compact(full=False)
    write(path, ["+U", 1, "a", 5], ["-D", 2, "a", 1], ["+I", 3, "a", 1]).compact(full=False)
    changes = [change for change in oracle.stream(path) if len(change.rows)]
    kinds = [sorted(zip(change.rows.kinds or [], map(tuple, change.rows.rows), strict=True)) for change in changes]
    assert kinds[-1] == [("+I", (3, "a", 1)), ("+U", (1, "a", 5)), ("-D", (2, "a", 1)), ("-U", (1, "a", 1))]


def test_a_single_partition_can_be_compacted(oracle: Oracle, tmp_path: Path) -> None:
    path = made(oracle, tmp_path)
    table = write(path, ["+I", 1, "a", 1], ["+I", 1, "b", 1])
    table.compact(partitions=[{"p": "a"}])
    assert [row[:2] for row in oracle.read(path).rows] == [[1, "a"]]
    assert len(waiting(table)) == 1


@pytest.mark.parametrize("history", ["kept", "expired"])
def test_rows_are_merged_in_order_after_java_has_merged_manifests(oracle: Oracle, tmp_path: Path, history: str) -> None:
    """Java puts a manifest that it rewrites because of a delete behind newer ones that it keeps."""
    options = {"manifest.target-file-size": "3 kb", "manifest.full-compaction-threshold-size": "1 b"}
    path = made(oracle, tmp_path, **options)
    partitions = [f"p{number}" for number in range(60)]
    oracle.write(path, [["+I", 1, partition, 1] for partition in [*partitions, "gone"]])
    oracle.write(path, [["+I", 1, partition, 2] for partition in partitions])
    oracle.drop_partition(path, {"p": "gone"})
    oracle.write(path, [["+I", 1, "other", 3]])
    if history == "expired":
        oracle.expire(path, retain=1)
    table = penstock.open_table(str(path))
    table.compact()
    rows = {row["p"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == dict.fromkeys(partitions, 2) | {"other": 3}
