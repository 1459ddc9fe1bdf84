"""Batches from files of canal messages into tables, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

import penstock
from penstock.errors import CheckpointDamaged, DecodeError, PenstockError, SchemaConflict
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.source import Offsets
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.checkpoint_folder import FILLED_TABLES, FOLLOWS
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.commit.committer import Committer
from tests.here import note_as_spark_does, run
from tests.shop import Shop, change, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_changes_of_several_tables_are_applied_in_order_to_new_tables(shop: Shop) -> None:
    shop.put(
        "1.json",
        insert("orders", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}),
        insert("users", {"id": 9, "name": "z"}),
        change("UPDATE", "orders", {"id": 1, "name": "a2"}, old=[{"name": "a"}]),
        change("DELETE", "orders", {"id": 2, "name": "b"}),
        insert("secret", {"id": 1}),
    )
    run(shop.spec(selection={"excluding-tables": "secret"}))
    assert shop.rows("orders") == [{"id": 1, "name": "a2"}]
    assert shop.rows("users") == [{"id": 9, "name": "z"}]
    assert not (shop.folder / "warehouse/ods.db/secret").exists()
    snapshots = list(shop.table("orders").store.snapshots.newest_first())
    assert len(snapshots) == 1
    assert snapshots[0].properties["penstock.pipeline"] == "shop"
    assert snapshots[0].commit_user.startswith("shop-")
    view = penstock.Catalog(str(shop.folder / "warehouse")).at()
    assert (view.pipeline, view.batch, view.snapshots) == ("shop", 0, {"ods.orders": 1, "ods.users": 1})


def test_a_source_learns_its_position_after_the_tables_have_the_batch(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def mirror(_source: DecodedSource, _offsets: Offsets) -> None:
        seen.append((shop.snapshots("orders"), shop.snapshots("users")))

    monkeypatch.setattr(DecodedSource, "mirror", mirror)
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 9}))
    run(shop.spec())
    assert seen == [(1, 1)]


def test_a_new_column_in_a_batch_replays_only_its_table(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}), insert("users", {"id": 9}))
    run(shop.spec())
    reports: list[BatchReport] = []
    shop.put(
        "2.json",
        insert("orders", {"id": 2, "name": "b"}),
        insert("users", {"id": 8}),
        insert("orders", {"id": 3, "name": "c", "q1": 7}),
        change("UPDATE", "orders", {"id": 1, "name": "a", "q1": 5}, old=[{"q1": None}]),
    )
    run(shop.spec(), on_batch=lambda _, report: reports.append(report))
    assert shop.rows("orders") == [
        {"id": 1, "name": "a", "q1": 5},
        {"id": 2, "name": "b", "q1": None},
        {"id": 3, "name": "c", "q1": 7},
    ]
    assert shop.ids("users") == [8, 9]
    assert shop.table("orders").schema_id == 1
    assert shop.files("orders") == {file.name for file in shop.live("orders")}
    assert reports[0].rows == {"ods.orders": 3, "ods.users": 1}


def test_batches_are_limited_and_a_run_without_data_creates_no_snapshot(shop: Shop) -> None:
    for number in range(3):
        shop.put(f"{number}.json", insert("orders", {"id": number, "name": "x"}))
    run(shop.spec(pipeline={"max-batch": {"rows": 1}}))
    assert shop.snapshots("orders") == 3
    run(shop.spec())
    assert shop.snapshots("orders") == 3


def test_a_bad_record_stops_the_job_and_names_its_position(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), "{nonsense")
    with pytest.raises(DecodeError) as caught:
        run(shop.spec())
    assert caught.value.facts["place"] == "1.json"
    assert not (shop.folder / "warehouse").exists()
    run(shop.spec(errors={"bad-record": "skip"}))
    assert shop.ids("orders") == [1]


def test_a_value_that_does_not_fit_is_counted_once_despite_a_replay(shop: Shop) -> None:
    reports: list[BatchReport] = []
    shop.put("1.json", insert("orders", {"id": 1, "q1": "seven"}), insert("orders", {"id": 2, "q1": 8}))
    run(shop.spec(errors={"bad-record": "skip"}), on_batch=lambda _, report: reports.append(report))
    assert shop.ids("orders") == [2]
    assert reports[0].ranges[0].tables["ods.orders"].bad.count == 1


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_dynamic_buckets_keep_a_key_in_one_bucket_over_batches_and_writers(shop: Shop, partitioned: bool) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    sink = {"table-options": options} | (
        {"partition-keys": ["q1"], "primary-keys": ["id", "q1"]} if partitioned else {}
    )
    for number, writers in enumerate([2, 3, 2]):
        changes = [{"id": key, "name": f"v{number}", "q1": key % 2} for key in range(10 * number, 10 * number + 20)]
        shop.put(f"{number}.json", *(insert("orders", item) for item in changes))
        run(shop.spec(sink=sink), writers=writers)
    rows = shop.rows("orders")
    assert [row["id"] for row in rows] == list(range(40))
    assert {row["name"] for row in rows if row["id"] < 10} == {"v0"}
    assert {row["name"] for row in rows if row["id"] >= 20} == {"v2"}
    assert len(shop.buckets("orders")) >= 8


@pytest.mark.slow
def test_keys_move_between_partitions_over_batches_tasks_and_writers(shop: Shop) -> None:
    """The rows of a key come from several files, hence tasks; where it lies, only the table knows."""
    sink = {
        "partition-keys": ["q1"],
        "primary-keys": ["id"],
        "table-options": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    }
    model: dict[int, tuple[str, int]] = {}
    random = Random(3)
    for number, writers in enumerate([2, 3, 2]):
        for part in range(3):
            changes = []
            for place in range(12):
                key = random.randrange(25)
                model[key] = (f"v{number}.{part}.{place}", random.randrange(4))
                changes.append({"id": key, "name": model[key][0], "q1": model[key][1]})
            shop.put(
                f"{number}.{part}.json",
                *(insert("orders", item) for item in changes),
                insert("users", {"id": key, "q1": 1}),
            )
        run(shop.spec(sink=sink), writers=writers)
        assert {row["id"]: (row["name"], row["q1"]) for row in shop.rows("orders")} == model
    assert shop.table("orders").bucket_mode == "KEY_DYNAMIC"
    assert len(shop.buckets("orders")) >= 8


def test_postponed_rows_keep_their_order_until_they_get_buckets(shop: Shop) -> None:
    sink = {"table-options": {"bucket": "-2", "postpone.default-bucket-num": "2"}}
    for number, writers in enumerate([2, 3]):
        for part in range(3):
            shop.put(
                f"{number}.{part}.json",
                *(insert("orders", {"id": k, "q1": 10 * number + part}) for k in range(part, 9)),
            )
        run(shop.spec(sink=sink), writers=writers)
    assert shop.rows("orders") == []
    assert all(name.startswith("data--u-") for name in shop.files("orders"))
    shop.table("orders").compact(full=False)
    assert [(row["id"], row["q1"]) for row in shop.rows("orders")] == [(k, 10 + min(k, 2)) for k in range(9)]
    assert {bucket for _, bucket in shop.buckets("orders")} == {0, 1}


def test_an_append_table_writes_new_rows_and_counts_dropped_deletes(shop: Shop) -> None:
    reports: list[BatchReport] = []
    shop.put(
        "1.json",
        insert("orders", {"id": 1, "name": "a"}),
        change("UPDATE", "orders", {"id": 1, "name": "b"}, old=[{"name": "a"}]),
        change("DELETE", "orders", {"id": 1, "name": "b"}),
    )
    sink = {"sync-primary-keys-from-source-schema": "false", "table-options": {}}
    run(shop.spec(sink=sink), on_batch=lambda _, report: reports.append(report))
    assert [row["name"] for row in shop.rows("orders")] == ["a", "b"]
    assert sum(part.tables["ods.orders"].dropped for part in reports[0].ranges) == 1


def test_computed_and_metadata_columns_follow_the_source_columns(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "2026-03-04"}))
    sink = {
        "computed-columns": ["y=year(name)", "at=now()"],
        "metadata-columns": ["table_name", "offset", "op_type"],
        "metadata-column-prefix": "_m_",
    }
    run(shop.spec(sink=sink))
    (row,) = shop.rows("orders")
    assert list(row) == ["id", "name", "y", "at", "_m_table_name", "_m_offset", "_m_op_type"]
    assert (row["y"], row["_m_table_name"], row["_m_offset"], row["_m_op_type"]) == (2026, "orders", 0, "INSERT")


def test_an_older_table_gets_computed_and_metadata_columns(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "2026-03-04"}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2, "name": "2027-03-04", "price": 129}))
    sink = {"computed-columns": ["y=year(name)", "cut=truncate(price, 2)"], "metadata-columns": ["table_name"]}
    run(shop.spec(sink=sink))
    made = [(row["id"], row["y"], row["cut"], row["table_name"]) for row in shop.rows("orders")]
    assert made == [(1, None, None, None), (2, 2027, "12", "orders")]
    assert "event=columns_added table=ods.orders columns=y, cut, table_name" in caplog.text
    caplog.clear()
    shop.put("3.json", insert("orders", {"id": 3, "name": None}))
    run(shop.spec(sink=sink))
    assert "columns_added" not in caplog.text


@pytest.mark.parametrize("behavior", ["ignore", "exception"])
def test_a_pipeline_that_adds_no_columns_leaves_older_tables_as_they_are(shop: Shop, behavior: str) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "2026-03-04"}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2, "name": "2027-03-04"}))
    spec = shop.spec(sink={"computed-columns": ["y=year(name)"]}, pipeline={"schema.change.behavior": behavior})
    if behavior == "exception":
        with pytest.raises(SchemaConflict, match="schema changed"):
            run(spec)
        return
    run(spec)
    assert shop.rows("orders") == [{"id": 1, "name": "2026-03-04"}, {"id": 2, "name": "2027-03-04"}]


def test_now_is_the_same_when_a_batch_is_read_again(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    sink = {"computed-columns": ["at=now()"]}
    with pytest.raises(Died):
        run(shop.spec(sink=sink), on_batch=die)
    first = shop.rows("orders")
    shutil.rmtree(shop.folder / "warehouse")
    (shop.folder / "checkpoint" / FILLED_TABLES).unlink()  # as if the driver had died before the commit
    run(shop.spec(sink=sink))
    assert shop.rows("orders") == first


class Died(PenstockError):
    """The driver's death, as far as the tables can tell."""


def die(*_: object) -> None:
    raise Died("died between the commits and the log of the batch")


def test_resume_skips_a_batch_committed_before_the_driver_was_killed(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    with pytest.raises(Died):
        run(shop.spec(), on_batch=die)
    before = shop.files("orders")
    run(shop.spec())
    assert shop.snapshots("orders") == 1
    assert shop.files("orders") == before
    shop.put("2.json", insert("orders", {"id": 2, "name": "b"}))
    run(shop.spec())
    assert shop.ids("orders") == [1, 2]


def test_resume_commits_only_the_table_missing_after_a_kill(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    shop.put("2.json", insert("orders", {"id": 2}), insert("users", {"id": 2}))

    commit = Committer.commit

    def dying(self: Committer, *given: object, **named: object) -> object:
        if self.store.name == "ods.users":
            raise Died("died between two tables")
        return commit(self, *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", dying)
        with pytest.raises(Died):
            run(shop.spec())
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 2], [1])
    run(shop.spec())
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 2], [1, 2])
    assert (shop.snapshots("orders"), shop.snapshots("users")) == (2, 2)


def test_a_new_checkpoint_over_tables_of_the_pipeline_is_refused_unless_accepted(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    run(shop.spec())
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        run(shop.spec(checkpoint="other"))
    run(shop.spec(checkpoint="third", pipeline={"accept-replay": True}))
    assert shop.ids("orders") == [1]
    run(shop.spec(checkpoint="fourth", name="another-pipeline"))


def test_a_lost_list_of_followed_checkpoints_is_made_again_as_its_error_says(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec())
    (shop.inbox / "1.json").unlink()
    shop.put("2.json", insert("orders", {"id": 2}))
    other, accepting = shop.spec(checkpoint="other"), shop.spec(checkpoint="other", pipeline={"accept-replay": True})
    run(accepting)
    note_as_spark_does(shop.folder / "other")
    follows = shop.folder / "other" / FOLLOWS
    shop.put("3.json", insert("users", {"id": 3}))
    follows.write_text("[")
    with pytest.raises(CheckpointDamaged) as damaged:
        run(other)
    assert "delete the file, and run once with  --accept-replay" in str(damaged.value.hint)
    follows.unlink()
    run(accepting)
    shop.put("4.json", insert("users", {"id": 4}))
    run(other)
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 2], [1, 3, 4])
    assert shop.snapshots("users") == 3


def test_a_rewound_checkpoint_is_refused(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec())
    shutil.copytree(shop.folder / "checkpoint", shop.folder / "copy")
    for number in (2, 3):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        run(shop.spec())
    shutil.rmtree(shop.folder / "checkpoint")
    (shop.folder / "copy").rename(shop.folder / "checkpoint")
    with pytest.raises(CheckpointMismatch, match="rewound"):
        run(shop.spec())
    assert shop.ids("orders") == [1, 2, 3]


def test_a_commit_of_another_writer_makes_the_batch_write_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    run(shop.spec(sink={"table-options": {"bucket": "1"}}))

    commit, met = Committer.commit, []

    def interrupted(self: Committer, *given: object, **named: object) -> object:
        if not met:
            met.append(self.store.name)
            with shop.table("orders").writer(commit_user="stranger") as stranger:
                stranger.write(shop.table("orders").scan().to_arrow())
                stranger.commit(1)
        return commit(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "commit", interrupted)
    shop.put("2.json", insert("orders", {"id": 1, "name": "b"}))
    run(shop.spec(sink={"table-options": {"bucket": "1"}}))
    assert shop.rows("orders") == [{"id": 1, "name": "b"}]
    assert shop.files("orders") == {file.name for file in shop.live("orders")}


def test_a_group_of_an_aggregate_that_only_lost_a_row_is_not_shown(shop: Shop) -> None:
    """As in Java Paimon: a single row of a key is not merged, and reads leave out a delete."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.q1.aggregate-function": "sum"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 5}), change("DELETE", "orders", {"id": 2, "q1": 3}))
    run(shop.spec(sink={"table-options": options}))
    assert shop.rows("orders") == [{"id": 1, "q1": 5}]
