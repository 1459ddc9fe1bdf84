"""Source tables without a key, in a pipeline of many tables: append tables, left out, or an error, as configured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import SourceError
from penstock.pipelines.mapping.described_tables import LEFT_OUT_HINT
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.handle import Table
from tests.here import run
from tests.shop import Shop, change, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def keyless(table: str, row: dict[str, object]) -> str:
    return json.dumps(json.loads(insert(table, row)) | {"pkNames": None})


APPENDS = {"table-options": {"bucket": "-1"}}
ABSENT = object()
SILENT = ["debezium-json", "maxwell-json", "ogg-json", "aws-dms-json", "canal-json", "aliyun-json"]
STATING: list[tuple[str, object]] = [
    ("canal-json", None),
    ("canal-json", []),
    ("debezium-json", []),
    ("maxwell-json", []),
    ("ogg-json", []),
    ("aliyun-json", []),
]


def message_of(form: str, keys: object = ABSENT, number: int = 1, table: str = "log") -> str:
    """A message of one row of the table shop.log, as each format has it; `keys` are those that the message states."""
    match form:
        case "canal-json":
            message = json.loads(insert(table, {"id": number}))
            del message["pkNames"]
            place, member = message, "pkNames"
        case "debezium-json":
            message = {"op": "c", "after": {"id": number}, "source": {"db": "shop", "table": table}}
            place, member = message, "pkNames"
        case "maxwell-json":
            message = {"database": "shop", "table": table, "type": "insert", "data": {"id": number}}
            place, member = message, "primary_key_columns"
        case "ogg-json":
            message = {"table": f"shop.{table}", "op_type": "I", "after": {"id": number}}
            place, member = message, "primary_keys"
        case "aliyun-json":
            place = {
                "dataColumn": [{"name": "id", "type": "LONG"}],
                "source": {"dbName": "shop", "tableName": table},
            }
            message = {"schema": place, "payload": {"op": "INSERT", "after": {"dataColumn": {"id": number}}}}
            member = "primaryKey"
        case _:
            meta = {"record-type": "data", "operation": "insert", "schema-name": "shop", "table-name": table}
            message = place = {"data": {"id": number}, "metadata": meta}
            member = "keys"
    if keys is not ABSENT:
        place[member] = keys
    return json.dumps(message)


@pytest.mark.parametrize("form", SILENT)
def test_messages_without_key_columns_are_written_to_an_append_table_as_in_paimon(
    shop: Shop, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("1.json", message_of(form))
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


@pytest.mark.parametrize(("form", "keys"), STATING)
def test_a_table_whose_messages_state_that_it_has_no_key_is_left_out(
    shop: Shop, form: str, keys: object, caplog: pytest.LogCaptureFixture
) -> None:
    source, reports = {"value.format": form}, list[BatchReport]()
    with caplog.at_level("WARNING"):
        for number in (1, 2):
            stated = message_of(form, keys, 1), message_of(form, ["id"], number, "orders"), message_of(form, keys, 2)
            shop.put(f"{number}.json", *stated)
        limits = {"max-batch": {"rows": 3}}
        run(shop.spec(source=source, pipeline=limits), tasks=1, on_batch=lambda _, report: reports.append(report))
    assert shop.ids("orders") == [1, 2] if form in {"canal-json", "aliyun-json"} else ["1", "2"]
    assert "ods.log" not in shop.warehouse.tables("ods")
    assert sum(report.passed_over["rows.left.out"] for report in reports) == 4
    assert reports[-1].stats.left_out == {"ods.log": "the source table has no primary key (source shop.log)"}
    assert caplog.text.count("event=table_left_out table=ods.log source=shop.log") == 1
    sink = {**APPENDS, "database": "other", "no-primary-key": "append"}
    run(shop.spec(checkpoint="b", source=source, sink=sink))
    assert len(Table(shop.warehouse.store("other.log")).scan().to_arrow()) == 4


@pytest.mark.parametrize("kind", ["INSERT", "UPDATE"])
def test_a_key_that_is_a_new_column_stops_nothing(shop: Shop, kind: str) -> None:
    """Messages from before lack the key column of the table that later messages of the same batch create."""
    old = None if kind == "INSERT" else [{"q1": "0"}]
    before = json.loads(change(kind, "log", {"q1": 1}, old=old)) | {"pkNames": []}
    shop.put("1.json", json.dumps(before), insert("log", {"q1": 1, "id": 7}), insert("orders", {"id": 1}))
    reports: list[BatchReport] = []
    run(shop.spec(), on_batch=lambda _, report: reports.append(report))
    assert (shop.ids("log"), shop.ids("orders")) == ([7], [1])
    assert sum(report.passed_over["rows.left.out"] for report in reports) == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_table_that_gets_its_key_later_is_captured_from_there_and_logged(
    shop: Shop, together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Earlier rows may have had equal keys: no row of them is used, not even of the same batch."""
    before = [keyless("log", {"id": 1}), keyless("log", {"id": 1}), keyless("log", {"id": 2})]
    shop.put("1.json", *before, *([insert("log", {"id": 3})] if together else []))
    reports: list[BatchReport] = []
    spec = shop.spec(pipeline={"max-batch": {"rows": 4 if together else 3}})
    with caplog.at_level("WARNING"):
        if not together:
            shop.put("2.json", insert("log", {"id": 3}))
        run(spec, tasks=1, on_batch=lambda _, report: reports.append(report))
    assert shop.ids("log") == [3]
    assert shop.table("log").store.schema().primary_keys == ("id",)
    assert (
        "event=table_taken_in table=ods.log source=shop.log reason=the source table has a primary key now"
        in caplog.text
    )
    assert reports[-1].stats.left_out == {}
    assert sum(report.passed_over["rows.left.out"] for report in reports) == 3


def test_a_table_that_loses_its_key_is_left_out_from_there_and_logged(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows can no longer be distinguished: by the old key they would overwrite each other."""
    shop.put("1.json", insert("log", {"id": 1}), insert("orders", {"id": 1}))
    run(shop.spec())
    shop.put("2.json", keyless("log", {"id": 1}), keyless("log", {"id": 1}), insert("orders", {"id": 2}))
    with caplog.at_level("WARNING"):
        run(shop.spec())
    assert "event=table_left_out table=ods.log source=shop.log" in caplog.text
    assert (shop.ids("log"), shop.ids("orders")) == ([1], [1, 2])


def test_an_append_table_that_exists_receives_rows_without_key_as_before(shop: Shop) -> None:
    shop.put("1.json", keyless("log", {"id": 1}))
    run(shop.spec(sink={**APPENDS, "no-primary-key": "append"}))
    shop.put("2.json", keyless("log", {"id": 2}))
    run(shop.spec(sink=APPENDS))
    assert shop.ids("log") == [1, 2]


@pytest.mark.parametrize("sink", [{"primary-keys": ["id"]}, {"sync-primary-keys-from-source-schema": False}])
def test_configured_keys_apply_to_tables_without_a_key(shop: Shop, sink: dict[str, Any]) -> None:
    shop.put("1.json", keyless("log", {"id": 1}), keyless("log", {"id": 1}))
    run(shop.spec(sink={"table-options": {"bucket": "-1"}} | sink))
    assert shop.ids("log") == ([1] if "primary-keys" in sink else [1, 1])


def test_a_keyless_shard_is_left_out_and_the_others_are_captured(shop: Shop) -> None:
    """Whichever comes first: its rows have no place in a table with a key."""
    first = json.loads(keyless("log", {"id": 1})) | {"database": "shop_1"}
    second = json.loads(insert("log", {"id": 2})) | {"database": "shop_2"}
    reports: list[BatchReport] = []
    for number in (1, 2):
        shop.put(f"{number}.json", json.dumps(first), json.dumps(second))
        run(shop.spec(), on_batch=lambda _, report: reports.append(report))
        assert shop.ids("log") == [2]
        assert reports[-1].stats.left_out == {"ods.log": "the source table has no primary key (source shop_1.log)"}


def test_keyless_tables_are_append_tables_if_configured(shop: Shop) -> None:
    shop.put("1.json", keyless("log", {"id": 1}), insert("orders", {"id": 1}))
    run(shop.spec(sink={"table-options": {"bucket": "-1"}, "no-primary-key": "append"}))
    assert (shop.ids("log"), shop.ids("orders")) == ([1], [1])
    assert shop.table("log").store.schema().primary_keys == ()


@pytest.mark.parametrize(
    "sink",
    [{"no-primary-key": "skip"}, {}, {"no-primary-key": "append", "table-options": {"bucket": "2"}}],
)
def test_a_left_out_table_without_key_is_counted_and_the_others_continue(shop: Shop, sink: dict[str, Any]) -> None:
    """The first table is left out by configuration, or cannot be created with the options of all tables."""
    shop.put("1.json", keyless("log", {"id": 1}), keyless("log", {"id": 2}), insert("orders", {"id": 1}))
    reports: list[BatchReport] = []
    for number in (1, 2):
        run(shop.spec(sink=sink), on_batch=lambda _, report: reports.append(report))
        assert shop.ids("orders") == list(range(1, number + 1))
        shop.put("2.json", keyless("log", {"id": 3}), insert("orders", {"id": 2}))
    assert [report.passed_over["rows.left.out"] for report in reports] == [2, 1]
    assert [list(report.stats.left_out) for report in reports] == [["ods.log"]] * 2
    assert "ods.log" not in shop.warehouse.tables("ods")


def test_the_hint_of_a_left_out_table_names_a_key_of_the_file(shop: Shop) -> None:
    written = re.search(r"in a file  (.*?\})", LEFT_OUT_HINT)
    assert written is not None
    section = yaml.safe_load(written[1].replace("NAME", "log"))
    shop.put("1.json", insert("log", {"id": 1}), insert("orders", {"id": 1}))
    run(shop.spec(**section))
    assert shop.warehouse.tables("ods") == ["ods.orders"]


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
    assert str(caught.value.facts["source"]).endswith(".log")
