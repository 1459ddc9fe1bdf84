"""Updates of a server whose binlog_row_image is not FULL: columns left out of mysqlType, out of the row, or the key."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SchemaConflict
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.here import run
from tests.shop import Shop, change, insert

TOLD = "event=updates_without_columns"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def partial(message: str, *names: str, **more: Any) -> str:
    """The message with these columns alone in its rows."""
    given = json.loads(message)
    rows = [{name: row[name] for name in names} for row in given["data"]]
    return json.dumps(given | {"data": rows} | more)


def taken(shop: Shop, caplog: pytest.LogCaptureFixture, **sink: Any) -> int:
    """How many updates without columns are counted, in a run that says so once a table."""
    caplog.clear()
    reports: list[BatchReport] = []
    with caplog.at_level(logging.WARNING):
        run(shop.spec(sink=sink), on_batch=lambda _, report: reports.append(report))
    count = sum(report.passed_over["updates.without.columns"] for report in reports)
    assert caplog.text.count(TOLD) == bool(count)
    return count


def whole(shop: Shop) -> None:
    shop.put("1.json", insert("orders", *({"id": number, "q1": 1, "name": "a"} for number in range(3))))
    run(shop.spec())


def update(id_: int, **columns: object) -> str:
    return change("UPDATE", "orders", {"id": id_, **columns}, old=[{"q1": 1}])


def test_undeclared_columns_are_null_and_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    whole(shop)
    shop.put("2.json", update(1, q1=2), update(2, q1=3))
    assert taken(shop, caplog) == 2
    assert "columns=name " in caplog.text
    assert [row["name"] for row in shop.rows("orders")] == ["a", None, None]


def test_declared_columns_that_are_not_sent_are_null_and_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    whole(shop)
    shop.put("2.json", partial(update(1, q1=2, name="a"), "id", "q1"))
    assert taken(shop, caplog) == 1
    assert shop.rows("orders")[1] == {"id": 1, "q1": 2, "name": None}


def test_if_null_means_unchanged_values_are_kept_without_a_report(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    options = {"table-options": {"bucket": "1", "merge-engine": "partial-update"}}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1, "name": "a"}))
    assert taken(shop, caplog, **options) == 0
    shop.put("2.json", update(1, q1=2))
    shop.put("3.json", partial(update(1, q1=3, name="a"), "id", "q1"))
    assert taken(shop, caplog, **options) == 0
    assert shop.rows("orders") == [{"id": 1, "q1": 3, "name": "a"}]


def test_a_column_missing_in_inserts_counts_as_dropped(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    whole(shop)
    shop.put("2.json", insert("orders", {"id": 7, "q1": 1}), update(1, q1=2))
    assert taken(shop, caplog) == 0


def test_full_updates_are_not_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1, "name": "a"}), update(1, q1=2, name=None))
    computed = {"computed-columns": ["big=upper(name)"], "metadata-columns": ["offset"]}
    assert taken(shop, caplog, **computed) == 0


def test_changes_without_a_key_stop_the_job_and_name_the_option(shop: Shop) -> None:
    whole(shop)
    shop.put("2.json", partial(change("UPDATE", "orders", {"q1": 2}, old=[{"q1": 1}]), "q1", pkNames=None))
    with pytest.raises(SchemaConflict, match="binlog_row_image") as stopped:
        run(shop.spec())
    assert "binlog_row_image" in str(stopped.value)
    assert [row["q1"] for row in shop.rows("orders")] == [1, 1, 1]


@pytest.mark.parametrize(("producer", "count"), [("input", 1), ("lookup", 0)])
def test_old_rows_that_a_rule_left_out_are_reported_where_the_changelog_repeats_them(
    shop: Shop, caplog: pytest.LogCaptureFixture, producer: str, count: int
) -> None:
    rule = {"source-table": "shop.orders", "condition": "q1 > 0", "action": "drop"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}, {"id": 2, "q1": -1}))
    shop.put("2.json", change("UPDATE", "orders", {"id": 2, "q1": 2}, old=[{"q1": -1}]))
    reports: list[BatchReport] = []
    sink = {"table-options": {"bucket": "1", "changelog-producer": producer}}
    with caplog.at_level(logging.WARNING):
        run(shop.spec(sink=sink, expect=[rule]), on_batch=lambda _, report: reports.append(report))
    assert [row["q1"] for row in shop.rows("orders")] == [1, 2]
    assert sum(report.passed_over["changelog.never.added"] for report in reports) == count
    assert caplog.text.count("event=changelog_without_inserts table=ods.orders") == count


ORDERED = {"bucket": "1", "sequence.field": "q1"}


def deleted(shop: Shop, **options: str) -> list[BatchReport]:
    """Run with the options of the tables given, and return the reports."""
    reports: list[BatchReport] = []
    run(shop.spec(sink={"table-options": ORDERED | options}), on_batch=lambda _, report: reports.append(report))
    return reports


def unordered(reports: list[BatchReport]) -> int:
    return sum(report.passed_over["messages.delete-without-sequence"] for report in reports)


@pytest.mark.parametrize("row", [{"id": 1}, {"id": 1, "q1": None, "name": None}])
def test_deletes_with_only_the_key_have_no_effect_and_are_reported(
    shop: Shop, caplog: pytest.LogCaptureFixture, row: dict[str, Any]
) -> None:
    shop.put("1.json", insert("orders", *({"id": number, "q1": 1, "name": "a"} for number in range(3))))
    deleted(shop)
    shop.put("2.json", insert("orders", {"id": 5, "q1": 1, "name": "a"}), change("DELETE", "orders", row))
    shop.put("3.json", change("DELETE", "orders", row | {"id": 2}))
    with caplog.at_level(logging.WARNING):
        reports = deleted(shop)
    assert unordered(reports) == 2
    assert shop.ids("orders") == [0, 1, 2, 5], "the rows stay"
    assert caplog.text.count("event=deletes_without_effect") == 1
    assert "table=ods.orders deletes=2 example=" in caplog.text
    second = len(insert("orders", {"id": 5, "q1": 1, "name": "a"})) + 1
    assert f"example=2.json offset {second} reason=" in caplog.text
    assert "REPLICA IDENTITY FULL" in caplog.text


def test_deletes_with_a_full_row_are_applied_without_a_report(shop: Shop) -> None:
    rows = [{"id": 1, "q1": 1, "name": "a"}, {"id": 2, "q1": None, "name": "b"}]
    shop.put("1.json", insert("orders", *rows))
    deleted(shop)
    shop.put("2.json", change("DELETE", "orders", *rows))
    assert unordered(deleted(shop)) == 0
    assert shop.ids("orders") == []


def test_ignored_deletes_are_not_reported_as_without_effect(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1, "name": "a"}), change("DELETE", "orders", {"id": 1}))
    assert unordered(deleted(shop, **{"ignore-delete": "true"})) == 0


def test_columns_that_no_message_has_are_no_sign_of_a_full_row(shop: Shop) -> None:
    row = {"id": 1, "q1": 1, "name": "a"}
    shop.put("1.json", insert("orders", row), change("DELETE", "orders", row | {"q1": None, "name": None}))
    reports: list[BatchReport] = []
    spec = shop.spec(
        sink={
            "table-options": ORDERED,
            "metadata-columns": ["offset"],
            "computed-columns": ["copied=cast(1, INT)"],
        },
        transform=[{"source-table": "shop.orders", "projection": "*, coalesce(name, 'none') AS shown"}],
    )
    run(spec, on_batch=lambda _, report: reports.append(report))
    assert unordered(reports) == 1
    assert shop.ids("orders") == [1]
