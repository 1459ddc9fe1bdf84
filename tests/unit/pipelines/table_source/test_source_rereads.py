"""Pipelines of tables that are emptied and read again: --reset, --resnapshot, position-lost: resnapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.errors import ConfigError, PositionLost
from penstock.ingest.source import Limit
from penstock.pipelines.commands.main import main
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.job import build
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.unit.pipelines.table_source.test_source import COLUMNS, LOGGED, Lake

RESNAPSHOT = {"resnapshot": True}


class _StopError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _StopError


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def spoil(lake: Lake, name: str) -> None:
    """Write a row that the source does not have, and change one that it has."""
    first = lake.rows(f"ods.{name}")[0][0]
    lake.write_into(f"dwd.{name}", [{"id": 1000, "city": "x", "score": 1}, {"id": first, "city": "x", "score": -1}])
    assert lake.rows(f"dwd.{name}") != lake.rows(f"ods.{name}")


@pytest.mark.slow
@pytest.mark.parametrize("options", [LOGGED, {"bucket": "2"}], ids=str)
def test_a_table_is_emptied_and_read_again_and_its_changes_follow(lake: Lake, options: dict[str, Any]) -> None:
    lake.create("orders", options)
    lake.create("users", options)
    for _ in range(2):
        lake.change("orders", deletes=False)
        lake.change("users", deletes=False)
        lake.run("orders", "users")
    spoil(lake, "orders")
    spoil(lake, "users")
    wrong = lake.rows("dwd.users")
    lake.run("orders", "users", pipeline={"reset": ["dwd.orders"]})
    assert lake.rows("dwd.orders") == lake.rows("ods.orders") != []
    assert lake.rows("dwd.users") == wrong
    lake.run("orders", "users", pipeline=RESNAPSHOT)
    assert lake.rows("dwd.users") == lake.rows("ods.users") != []
    lake.change("orders")
    lake.run("orders", "users")
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")


def test_a_target_that_was_dropped_is_no_rollback_if_all_tables_are_read_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create("orders", LOGGED)
    for _ in range(4):
        lake.change("orders", deletes=False)
        lake.run("orders")
    lake.change("orders")
    with monkeypatch.context() as patch:
        patch.setattr(BatchDriver, "take", _stop)
        with pytest.raises(_StopError):
            lake.run("orders")
    # The batch that was planned is repeated first.
    lake.catalog.drop_table("dwd.orders")
    lake.run("orders", pipeline=RESNAPSHOT)
    assert lake.rows("dwd.orders") == lake.rows("ods.orders") != []


def test_an_aggregation_is_emptied_before_its_rows_are_added_again(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    rule = {"source-table": "ods.orders", "projection": "city, score", "primary-keys": ["city"]}
    options = {"merge-engine": "aggregation", "fields.score.aggregate-function": "sum", "bucket": "1"}
    sections: dict[str, Any] = {"sink": {"table": "sums", "table-options": options}, "transform": [rule]}
    lake.change("orders", deletes=False)
    lake.run("orders", **sections)
    expected = lake.rows("dwd.sums")
    lake.write_into("dwd.sums", [{"city": "a", "score": 1}])
    lake.run("orders", pipeline={"reset": ["dwd.sums"]}, **sections)
    assert lake.rows("dwd.sums") == expected != []


def test_several_sources_of_one_table_are_read_again_together(lake: Lake) -> None:
    for name in ("east", "west"):
        lake.create(name, LOGGED)
    lake.write("east", [{"id": 1, "city": "a", "score": 1}])
    lake.write("west", [{"id": 2, "city": "b", "score": 2}])
    lake.run("east", "west", sink={"table": "all", "table-options": {"bucket": "1"}})
    lake.write_into("dwd.all", [{"id": 3, "city": "c", "score": 3}])
    lake.run("east", "west", sink={"table": "all"}, pipeline={"reset": ["dwd.all"]})
    assert lake.rows("dwd.all") == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.slow
def test_a_lost_position_is_read_again_on_request_or_by_policy(lake: Lake) -> None:
    for name in ("orders", "users"):
        lake.create(name, {"bucket": "1"})
        lake.change(name, deletes=False)
    lake.run("orders", "users")
    for name in ("orders", "users"):
        for _ in range(3):
            lake.change(name)
        lake.table(f"ods.{name}").expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
        with pytest.raises(PositionLost, match="no longer has the snapshot") as caught:
            lake.run("orders", "users")
        assert "--resnapshot" in str(caught.value.hint)
        sections = {"errors": {"position-lost": "resnapshot"}} if name == "orders" else {"pipeline": RESNAPSHOT}
        lake.run("orders", "users", **sections)
        assert lake.rows("dwd.orders") == lake.rows("ods.orders") != []
        assert lake.rows("dwd.users") == lake.rows("ods.users") != []


def test_no_table_is_emptied_by_policy_before_a_replay_of_dead_letters_has_ended(lake: Lake) -> None:
    lake.create("orders", {"bucket": "1"})
    lake.change("orders", deletes=False)
    lake.run("orders")
    rows = lake.rows("dwd.orders")
    for _ in range(3):
        lake.change("orders")
    lake.table("ods.orders").expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    checkpoint = CheckpointFolder(str(lake.spec.checkpoint))
    assert checkpoint.begin_replay({})
    again = {"errors": {"position-lost": "resnapshot"}}
    for _ in range(2):  # the second one repeats the batch
        with pytest.raises(CheckpointInUse, match=r"penstock dlq .* replay"):
            lake.run("orders", **again)
        assert lake.rows("dwd.orders") == rows
    checkpoint.end_replay()
    lake.run("orders", **again)
    assert lake.rows("dwd.orders") == lake.rows("ods.orders") != rows


@pytest.mark.slow
def test_a_table_that_was_created_again_is_read_from_its_beginning(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    for _ in range(3):
        lake.change("orders", deletes=False)
    lake.run("orders", source={"consumer-id": "layer"})
    lake.catalog.drop_table("ods.orders")
    lake.create("orders", LOGGED)
    lake.write("orders", [{"id": 1, "city": "a", "score": 1}])
    with pytest.raises((ConfigError, PositionLost)):
        lake.run("orders", source={"consumer-id": "layer"})
    lake.run("orders", source={"consumer-id": "layer"}, pipeline=RESNAPSHOT)
    lake.write("orders", [{"id": 2, "city": "b", "score": 2}])
    lake.run("orders", source={"consumer-id": "layer"})
    assert lake.rows("dwd.orders") == [(1, "a", 1), (2, "b", 2)]


def test_tables_are_read_again_also_where_the_pipeline_began_with_changes(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.change("orders", deletes=False)
    latest = {"options": {"scan.mode": "latest"}}
    lake.run("orders", source=latest)
    assert lake.rows("dwd.orders") == []
    lake.run("orders", source=latest, pipeline=RESNAPSHOT)
    assert lake.rows("dwd.orders") == lake.rows("ods.orders") != []


def test_a_request_is_carried_out_once_in_a_run_and_alone_in_its_batch(lake: Lake) -> None:
    lake.create("orders", LOGGED, COLUMNS)
    lake.change("orders", deletes=False)
    lake.run("orders")
    again = lake.spec.model_copy(update={"pipeline": lake.spec.pipeline.model_copy(update=RESNAPSHOT)})
    source = build.ready(again).source
    emptied = source.latest_offsets({}, Limit())
    assert source.at_barrier()
    assert [range_.start[0] for range_ in source.plan({}, emptied, 4)] == ["empty"]
    following = source.latest_offsets(emptied, Limit())
    assert not source.at_barrier()
    assert {range_.start[0] for range_ in source.plan(emptied, following, 4)} == {"state"}
    assert source.latest_offsets(following, Limit()) == following


def test_a_table_that_the_pipeline_does_not_write_cannot_be_reset(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.run("orders")
    with pytest.raises(ConfigError, match=r"no table of the source goes to dwd.order\n.*dwd.orders"):
        lake.run("orders", pipeline={"reset": ["dwd.order"]})


@pytest.mark.slow
def test_the_rows_of_a_new_column_are_read_with_it(lake: Lake) -> None:
    table = lake.create("orders", LOGGED)
    lake.change("orders", deletes=False)
    lake.run("orders")
    table.store.evolve([penstock.AddColumn("note", "STRING")], lambda *_: None)
    lake.write("orders", [{"id": 100, "city": "a", "score": 1, "note": "new"}])
    lake.run("orders", pipeline=RESNAPSHOT)
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")


def test_a_signal_is_refused_with_the_flag_to_use(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create("orders", LOGGED)
    file = lake.folder / "layer.yaml"
    sink = {"catalog": {"warehouse": f"{lake.folder}/lake"}, "database": "dwd"}
    description = {"version": 1, "pipeline": {"name": "layer", "checkpoint": f"{lake.folder}/checkpoint"}}
    lake.run("orders")
    file.write_text(yaml.safe_dump({**description, "source": {"type": "table", "table": "ods.orders"}, "sink": sink}))
    assert main(["signal", str(file), "snapshot", "ods.orders"]) == 2
    assert "--reset TARGET_TABLE" in capsys.readouterr().err
