"""Updates of a server whose binlog_row_image is not FULL: columns left out of mysqlType, out of the row, or the key."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SchemaConflict
from penstock.pipelines.tasks.reports import BatchReport
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
