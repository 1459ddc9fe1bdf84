"""The selection of tables, and the requests of users to read tables again."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from penstock.ingest.database.requested_tables import emptied_by, requested_parts, requested_tables, with_refused_names
from penstock.ingest.database.settings import CapturedTables, RereadRequests, names_pattern
from penstock.storage.state_folder import StateFolder


def requests_in(folder: Path, **tables: list[str]) -> RereadRequests:
    requests = RereadRequests(StateFolder(str(folder)))
    for name, names in tables.items():
        requests.folder.write(f"{name}.json", json.dumps({"tables": names}).encode())
    return requests


def test_excluding_patterns_win_and_match_the_whole_name() -> None:
    tables = CapturedTables(
        "shop", including="orders.*", excluding="orders_old", left_out=frozenset({("shop", "orders2")})
    )
    assert tables.includes("shop", "orders")
    assert tables.includes("shop", "orders_1")
    assert not tables.includes("shop", "orders_old")
    assert not tables.includes("shop", "orders2")
    assert not tables.includes("shop2", "orders")
    assert not tables.includes("shop", "my_orders")


def test_names_select_by_database_and_table_as_one_text() -> None:
    tables = CapturedTables(names=names_pattern(["shop.*", "erp.orders"]), excluding_names=names_pattern(["shop.log"]))
    assert [name for name in ("orders", "log") if tables.includes("shop", name)] == ["orders"]
    assert [name for name in ("orders", "log") if tables.includes("erp", name)] == ["orders"]
    assert names_pattern(()) is None


def test_requests_are_deleted_once_the_offsets_name_them(tmp_path: Path) -> None:
    requests = requests_in(tmp_path, a=["shop.t"], b=["u"])
    assert [request.name for request in requests.pending(())] == ["a.json", "b.json"]
    assert [request.tables for request in requests.pending(["a.json"])] == [("u",)]
    assert requests.folder.names() == ["b.json"]


def test_a_request_to_empty_tables_is_kept_once(tmp_path: Path) -> None:
    requests = requests_in(tmp_path, a=["shop.u"])
    for _ in range(2):  # a batch may be planned again
        requests.add_emptying([("shop", "t")], "4f")
    captured = [("shop", "t"), ("shop", "u")]
    assert requested_tables(requests.pending(()), captured) == captured
    assert emptied_by(requests.pending(()), captured) == [("shop", "t")]
    assert emptied_by(requests.pending(["reset-4f"]), captured) == []
    requests.add_emptying((), "5a")
    assert emptied_by(requests.pending(()), captured) == captured
    assert requests.resets() == ("reset-5a",)


def test_request_names_a_table_with_or_without_its_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    captured = [("shop", "t"), ("erp", "t"), ("erp", "u"), ("erp", "v")]
    with caplog.at_level(logging.INFO):
        names = requested_tables(requests_in(tmp_path, a=["shop.t", "u"], b=["w"]).pending(()), captured)
    assert names == [("shop", "t"), ("erp", "u")]
    assert "event=tables_read_again tables=shop.t,erp.u" in caplog.messages


def test_a_name_of_no_captured_table_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    requests = requests_in(tmp_path, a=["shop.t", "u"], b=["w"])
    requests.add(("shop", "gone"))
    requests.folder.write("c.json", json.dumps({"tables": ["t", "x"], "where": "id > 1"}).encode())
    found = with_refused_names(requests.pending(()), [("shop", "t"), ("erp", "u")], ())
    assert found == ("w: no such table is captured", "x: no such table is captured")
    assert caplog.messages == ["event=signal_unknown tables=w,x note=no such table is captured"]
    assert with_refused_names(requests_in(tmp_path / "none").pending(()), [("shop", "t")], ()) == ()


def test_a_table_that_was_dropped_before_the_pipeline_reads_it_again_is_no_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests = requests_in(tmp_path)
    requests.add(("shop", "t"))
    requests.add(("shop", "u"))
    with caplog.at_level(logging.INFO):
        assert requested_tables(requests.pending(()), [("shop", "u")]) == [("shop", "u")]
    assert caplog.messages == [
        "event=tables_not_read_again tables=shop.t note=they do not exist any more",
        "event=tables_read_again tables=shop.u",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_request_with_a_condition_is_for_a_part_of_its_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    requests = requests_in(tmp_path, a=["shop.t"])
    requests.folder.write("b.json", json.dumps({"tables": ["t", "x"], "where": "id > 1"}).encode())
    captured, pending = [("shop", "t"), ("erp", "t"), ("erp", "u")], requests.pending(())
    assert requested_tables(pending, captured) == [("shop", "t")]
    assert [str(part) for part in requested_parts(pending, captured)] == [
        "shop.t where id > 1",
        "erp.t where id > 1",
    ]
