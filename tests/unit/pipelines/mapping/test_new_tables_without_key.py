"""Source tables without a key, in a pipeline of many tables: append tables, left out, or an error, as it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SourceError
from penstock.pipelines.tasks.reports import BatchReport
from tests.here import run
from tests.shop import Shop, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def keyless(table: str, row: dict[str, object]) -> str:
    return json.dumps(json.loads(insert(table, row)) | {"pkNames": None})


APPENDS = {"table-options": {"bucket": "-1"}}


def keyless_message(form: str) -> str:
    """Messages of one row without a key, as the formats have them: the table shop.log."""
    match form:
        case "canal-json":
            return keyless("log", {"id": 1})
        case "debezium-json":
            message: dict[str, object] = {"op": "c", "after": {"id": 1}, "source": {"db": "shop", "table": "log"}}
        case "maxwell-json":
            message = {"database": "shop", "table": "log", "type": "insert", "data": {"id": 1}}
        case "ogg-json":
            message = {"table": "shop.log", "op_type": "I", "after": {"id": 1}}
        case _:
            meta = {"record-type": "data", "operation": "insert", "schema-name": "shop", "table-name": "log"}
            message = {"data": {"id": 1}, "metadata": meta}
    return json.dumps(message)


@pytest.mark.parametrize("form", ["canal-json", "debezium-json", "maxwell-json", "ogg-json", "aws-dms-json"])
def test_a_table_without_key_is_an_append_table_as_in_paimon_and_may_be_left_out(
    shop: Shop, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Paimon's job requires no keys, whatever the format; what leaves such tables out is our own setting."""
    shop.put("1.json", keyless_message(form))
    source = {"value.format": form}
    with caplog.at_level("WARNING"):
        run(shop.spec(source=source, sink=APPENDS))
    assert shop.table("log").store.schema().primary_keys == ()
    assert "event=table_without_key table=ods.log source=shop.log" in caplog.text
    reports: list[BatchReport] = []
    other = {**APPENDS, "database": "other", "no-primary-key": "skip"}
    run(shop.spec(checkpoint="b", source=source, sink=other), on_batch=lambda _, report: reports.append(report))
    assert [report.passed_over["rows.left.out"] for report in reports] == [1]
    assert "other" not in shop.warehouse.databases()


def test_keyless_tables_are_append_tables(shop: Shop) -> None:
    shop.put("1.json", keyless("log", {"id": 1}), insert("orders", {"id": 1}))
    run(shop.spec(sink={"table-options": {"bucket": "-1"}}))
    assert (shop.ids("log"), shop.ids("orders")) == ([1], [1])
    assert shop.table("log").store.schema().primary_keys == ()


@pytest.mark.parametrize("sink", [{"no-primary-key": "skip"}, {"table-options": {"bucket": "2"}}])
def test_a_keyless_table_that_is_left_out_is_counted_and_stops_no_other(shop: Shop, sink: dict[str, Any]) -> None:
    """Whether it is to be left out, or cannot be made with the options of all tables; though it comes first."""
    shop.put("1.json", keyless("log", {"id": 1}), keyless("log", {"id": 2}), insert("orders", {"id": 1}))
    reports: list[BatchReport] = []
    for number in (1, 2):
        run(shop.spec(sink=sink), on_batch=lambda _, report: reports.append(report))
        assert shop.ids("orders") == list(range(1, number + 1))
        shop.put("2.json", keyless("log", {"id": 3}), insert("orders", {"id": 2}))
    assert [report.passed_over["rows.left.out"] for report in reports] == [2, 1]
    assert [list(report.stats.left_out) for report in reports] == [["ods.log"]] * 2
    assert "ods.log" not in shop.warehouse.tables("ods")


def test_one_table_receives_the_selected_source_tables(shop: Shop) -> None:
    shop.put("1.json", insert("orders_1", {"id": 1}), insert("orders_2", {"id": 2}), insert("users", {"id": 3}))
    selection = {"including-tables": "orders_.*", "excluding-tables": "orders_2"}
    reports: list[BatchReport] = []
    run(shop.spec(sink={"table": "all"}, selection=selection), on_batch=lambda _, report: reports.append(report))
    assert shop.ids("all") == [1]
    assert reports[0].passed_over["rows.left.out"] == 2


def test_a_keyless_table_stops_the_job_if_configured(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), keyless("log", {"id": 1}))
    with pytest.raises(SourceError, match="has no primary key") as caught:
        run(shop.spec(sink={"no-primary-key": "fail"}))
    assert caught.value.facts["source"].endswith(".log")
