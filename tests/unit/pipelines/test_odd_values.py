"""Zero dates, times that are none, and what else is in no table: one rule for all formats, and counted."""

from __future__ import annotations

import datetime as dt
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, SchemaConflict
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.catalog import Catalog
from penstock.table.options import checks
from tests.here import run
from tests.shop import Shop, change, insert

TYPES = {"id": "bigint", "d": "date", "t": "datetime(3)", "c": "time"}
GOOD = {"id": "2", "d": "2024-05-06", "t": "2024-05-06 07:08:09.123", "c": "07:08:09"}
ODD = {"id": "1", "d": "0000-00-00", "t": "2023-00-10 00:00:00", "c": "838:59:59"}
EPOCH = {"id": 1, "d": dt.date(1970, 1, 1), "t": dt.datetime(1970, 1, 1), "c": dt.time(0)}
NULLS = {"id": 1, "d": None, "t": None, "c": None}
READ = {"id": 2, "d": dt.date(2024, 5, 6), "t": dt.datetime(2024, 5, 6, 7, 8, 9, 123000), "c": dt.time(7, 8, 9)}


def canal(row: dict[str, str]) -> str:
    head = {"type": "INSERT", "database": "shop", "table": "o", "isDdl": False, "ts": 1, "es": 1}
    return json.dumps(head | {"pkNames": ["id"], "mysqlType": TYPES, "data": [row], "old": None})


def maxwell(row: dict[str, str]) -> str:
    head = {"type": "insert", "database": "shop", "table": "o", "ts": 1, "xid": 1, "primary_key_columns": ["id"]}
    return json.dumps(head | {"data": row})


def ogg(row: dict[str, str]) -> str:
    head = {"table": "shop.o", "op_type": "I", "op_ts": "2024-05-06 07:08:09.000000", "pos": "1"}
    return json.dumps(head | {"primary_keys": ["id"], "after": row})


def debezium(row: dict[str, str]) -> str:
    source = {"db": "shop", "table": "o"}
    return json.dumps({"op": "c", "before": None, "after": row, "source": source, "ts_ms": 1, "pkNames": ["id"]})


def dms(row: dict[str, str]) -> str:
    names = {"schema-name": "shop", "table-name": "o"}
    return json.dumps({"data": row, "metadata": {"record-type": "data", "operation": "insert", **names}})


MESSAGES = {
    "canal-json": canal,
    "maxwell-json": maxwell,
    "ogg-json": ogg,
    "debezium-json": debezium,
    "aws-dms-json": dms,
}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def typed(shop: Shop, suffix: str) -> None:
    """A table that says the types, which most formats do not."""
    catalog = Catalog(f"{shop.folder}/warehouse")
    catalog.create_database("ods")
    columns = [
        ("id", "BIGINT NOT NULL"),
        ("d", f"DATE{suffix}"),
        ("t", f"TIMESTAMP(3){suffix}"),
        ("c", f"TIME(0){suffix}"),
    ]
    catalog.create_table("ods.o", columns, ["id"], options={"bucket": "1"})


def reports_of(shop: Shop, value_format: str, *mapping: str, sink: Any = None, **more: Any) -> list[BatchReport]:
    reports: list[BatchReport] = []
    options = {"type-mapping": list(mapping), "table-options": {"bucket": "-1"}}
    run(
        shop.spec(source={"value.format": value_format}, sink=options | (sink or {}), **more),
        on_batch=lambda _, report: reports.append(report),
    )
    return reports


@pytest.mark.parametrize("value_format", MESSAGES)
@pytest.mark.parametrize(("suffix", "expected"), [("", NULLS), (" NOT NULL", EPOCH)])
def test_invalid_dates_are_null_or_the_epoch_in_every_format(
    shop: Shop, value_format: str, suffix: str, expected: dict[str, Any]
) -> None:
    typed(shop, suffix)
    shop.put("1.json", *(MESSAGES[value_format](row) for row in (ODD, GOOD)))
    (report,) = reports_of(shop, value_format)
    assert shop.rows("o") == [expected, READ]
    assert report.passed_over["values.nulled"] == 3


@pytest.mark.parametrize("value_format", MESSAGES)
def test_a_strict_mapping_makes_invalid_dates_bad_records_in_every_format(shop: Shop, value_format: str) -> None:
    typed(shop, "")
    shop.put("1.json", *(MESSAGES[value_format](row) for row in (ODD, GOOD)))
    with pytest.raises(DecodeError, match="0000-00-00"):
        reports_of(shop, value_format, "zero-date-error")
    reports_of(shop, value_format, "zero-date-error", errors={"bad-record": "skip"})
    assert shop.rows("o") == [READ]


OUTSIDE = ("-00:00:01", "24:00:00", "838:59:59")


def keyed_by_time(shop: Shop) -> None:
    catalog = Catalog(f"{shop.folder}/warehouse")
    catalog.create_database("ods")
    columns = [("id", "BIGINT"), ("d", "DATE"), ("t", "TIMESTAMP(3)"), ("c", "TIME(0) NOT NULL")]
    catalog.create_table("ods.o", columns, ["c"], options={"bucket": "1"})


@pytest.mark.parametrize("value_format", MESSAGES)
@pytest.mark.parametrize("outside", OUTSIDE)
def test_times_outside_of_a_day_are_bad_records_in_keys(shop: Shop, value_format: str, outside: str) -> None:
    keyed_by_time(shop)
    shop.put("1.json", *(MESSAGES[value_format](row) for row in (GOOD | {"c": outside}, GOOD)))
    with pytest.raises(DecodeError, match=outside) as refused:
        reports_of(shop, value_format)
    assert "c TIME(0)" in str(refused.value)
    assert "time-to-string" in str(refused.value)
    assert (refused.value.facts["table"], refused.value.facts["place"]) == ("ods.o", "1.json")
    reports_of(shop, value_format, errors={"bad-record": "skip"})
    assert shop.rows("o") == [READ]


@pytest.mark.parametrize(("millis", "shown"), [(-1, "-1 ms"), (86_400_000, "86400000 ms")])
def test_times_sent_as_numbers_are_bad_records_in_keys(shop: Shop, millis: int, shown: str) -> None:
    keyed_by_time(shop)
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "c", "type": "int64", "name": "io.debezium.time.MicroTime"},
    ]
    schema = {"fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": {"id": 1, "c": millis * 1000}, "source": {"db": "s", "table": "o"}}
    shop.put("1.json", json.dumps({"schema": schema, "payload": payload}))
    with pytest.raises(DecodeError, match=shown) as refused:
        reports_of(shop, "debezium-json")
    assert "time-to-string" in str(refused.value)


def test_times_kept_as_text_are_accepted_in_keys(shop: Shop) -> None:
    keys = {"primary-keys": ["c"], "type-mapping": ["time-to-string"]}
    shop.put("1.json", *(canal(GOOD | {"id": str(at), "c": item}) for at, item in enumerate(OUTSIDE)))
    run(shop.spec(sink=keys))
    assert [row["c"] for row in shop.rows("o")] == list(OUTSIDE)


def test_a_value_without_a_column_name_is_a_bad_record(shop: Shop) -> None:
    shop.put("1.json", maxwell(GOOD | {"": "lost"}), maxwell({"id": "3", "": None}), maxwell(GOOD))  # type: ignore[dict-item]
    with pytest.raises(DecodeError, match="has no valid column name") as refused:
        reports_of(shop, "maxwell-json")
    assert (refused.value.facts["table"], refused.value.facts["offset"]) == ("ods.o", 0)
    reports_of(shop, "maxwell-json", errors={"bad-record": "skip"})
    assert shop.ids("o") == ["2", "3"]  # type: ignore[comparison-overlap]
    assert shop.table("o").schema.names == ["id", "d", "t", "c"]


def test_a_message_without_a_table_is_a_bad_record_of_several_tables(shop: Shop) -> None:
    nameless = {**json.loads(insert("o", {"id": 1})), "table": None}
    shop.put("1.json", json.dumps(nameless), insert("o", {"id": 2}))
    with pytest.raises(
        DecodeError, match="Cannot synchronize record when database name or table name is unknown"
    ) as error:
        run(shop.spec())
    assert (error.value.facts["place"], error.value.facts["offset"]) == ("1.json", 0)
    assert "kafka-sync-table" in (error.value.hint or "")
    run(shop.spec(errors={"bad-record": "dead-letter"}))
    assert shop.ids("o") == [2]
    (letter,) = shop.table("__penstock_dead_letters").scan().to_arrow().to_pylist()
    assert (letter["error_class"], json.loads(letter["raw_value"])) == ("no-name", nameless)


def test_an_unknown_type_is_kept_as_bytes_and_reported_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    message = json.loads(insert("o", {"id": 1, "name": "x"}))
    message["mysqlType"]["name"] = "hologram(3)"
    shop.put("1.json", json.dumps(message))
    with caplog.at_level(logging.WARNING):
        run(shop.spec())
        run(shop.spec())
    assert shop.rows("o") == [{"id": 1, "name": b"x"}]
    messages = [record.getMessage() for record in caplog.records if "type_unknown" in record.getMessage()]
    assert messages == ["event=type_unknown table=ods.o column=name type=hologram(3) taken_as=BYTES"]


@pytest.mark.parametrize(
    ("column", "made"),
    [
        ("name", {"computed-columns": ["name=now()"]}),
        ("x_op_type", {"metadata-columns": ["op_type"], "metadata-column-prefix": "x_"}),
    ],
)
def test_a_source_column_is_not_replaced_by_a_computed_one(shop: Shop, column: str, made: dict[str, Any]) -> None:
    shop.put("1.json", insert("o", {"id": 1}))
    run(shop.spec(sink=made))
    shop.put("2.json", insert("o", {"id": 2, column: "of the source"}), insert("p", {"id": 1, column: "x"}))
    with pytest.raises(SchemaConflict, match="computed or metadata column") as refused:
        run(shop.spec(sink=made))
    assert refused.value.facts.items() >= {"columns": column, "table": "ods.o"}.items()


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("Asia/Shanghai", 8)])
def test_times_without_zone_become_instants_in_the_zone_of_the_pipeline(shop: Shop, zone: str, hours: int) -> None:
    catalog = Catalog(f"{shop.folder}/warehouse")
    catalog.create_database("ods")
    catalog.create_table("ods.o", [("id", "BIGINT NOT NULL"), ("name", "TIMESTAMP_LTZ(3)")], ["id"])
    texts = ["2024-05-06 07:08:09.5", "2024-05-06T07:08:09Z", "1714979289000"]
    shop.put("1.json", *(maxwell({"id": str(at), "name": text}) for at, text in enumerate(texts)))
    reports_of(shop, "maxwell-json", pipeline={"local-time-zone": zone})
    read = [row["name"] for row in shop.rows("o")]
    utc = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    assert read == [utc.replace(microsecond=500_000) - dt.timedelta(hours=hours), utc, utc]


@pytest.mark.parametrize("value", ["3.5e38", "-1e39"])
def test_a_number_beyond_all_floats_is_a_bad_record(shop: Shop, value: str) -> None:
    rows = [insert("o", {"id": at, "name": item}) for at, item in enumerate(("3.4028235e38", value, "Infinity"))]
    shop.put("1.json", *(row.replace("varchar(20)", "float") for row in rows))
    run(shop.spec(errors={"bad-record": "skip"}))
    assert [row["name"] for row in shop.rows("o")] == [3.4028234663852886e38, float("inf")]


@pytest.mark.parametrize("value", ["x" * 300, "é" * 130, "a/" * 70, "a\0b"], ids=["long", "in bytes", "escaped", "NUL"])
def test_a_partition_value_that_cannot_name_a_folder_is_a_bad_record(shop: Shop, value: str) -> None:
    keys = {"primary-keys": ["id", "d"], "partition-keys": ["d"]}
    shop.put("1.json", maxwell(GOOD | {"d": value}), maxwell(GOOD | {"d": "y" * 240}))
    with pytest.raises(DecodeError, match="the name of a folder") as refused:
        run(shop.spec(source={"value.format": "maxwell-json"}, sink=keys))
    facts = refused.value.facts
    assert (facts["table"], facts["place"], facts["offset"]) == ("ods.o", "1.json", 0)
    run(shop.spec(source={"value.format": "maxwell-json"}, sink=keys, errors={"bad-record": "dead-letter"}))
    assert [row["d"] for row in shop.rows("o")] == ["y" * 240]
    (letter,) = shop.table("__penstock_dead_letters").scan().to_arrow().to_pylist()
    assert (letter["target_table"], letter["topic"], letter["offset"]) == ("ods.o", "1.json", 0)


@pytest.mark.parametrize(("value_format", "mapping"), [("maxwell-json", ()), ("canal-json", ("to-string",))])
def test_text_columns_keep_the_text_of_the_source(shop: Shop, value_format: str, mapping: tuple[str, ...]) -> None:
    shop.put("1.json", MESSAGES[value_format](ODD))
    reports_of(shop, value_format, *mapping)
    assert shop.rows("o") == [ODD]


@pytest.mark.parametrize("name", ["a/b", "../outside", "a$files", "..", " a", "x" * 300])
def test_a_table_name_that_leads_out_of_its_database_is_refused(shop: Shop, name: str) -> None:
    shop.put("1.json", insert(name, {"id": 1}))
    with pytest.raises(ConfigError, match="cannot be the name of a table") as refused:
        reports_of(shop, "canal-json")
    assert "--table-mapping" in str(refused.value)
    assert not [path for path in Path(shop.warehouse.warehouse).rglob("schema-0") if path.is_file()]
    run(shop.spec(sink={"naming": {"table-mapping": {name: "odd"}}}))
    assert shop.ids("odd") == [1]


def test_skipped_messages_are_counted_by_kind(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    keyless, appends = json.loads(change("DELETE", "log", {"id": 1})), {"sink": {"no-primary-key": "append"}}
    ddl = json.dumps({"isDdl": True, "type": "ALTER", "database": "shop", "table": "o", "data": None, "sql": "..."})
    messages = [json.dumps(keyless | {"pkNames": None, "type": kind}) for kind in ("INSERT", "DELETE", "DELETE")]
    shop.put(
        "1.json",
        *messages,
        ddl,
        insert("secret", {"id": 1}),
        insert("o", {"id": 1, "name": "\\ud800"}).replace("\\\\", "\\"),
    )
    with caplog.at_level(logging.WARNING):
        (report,) = reports_of(shop, "canal-json", selection={"excluding-tables": "secret"}, **appends)
    assert report.passed_over == {
        "messages.ALTER": 1,
        "rows.left.out": 1,
        "append.deletes.dropped": 2,
        "texts.repaired": 1,
    }
    warnings = [record.getMessage() for record in caplog.records if "append_deletes_dropped" in record.getMessage()]
    assert len(warnings) == 1
    assert "table=ods.log" in warnings[0]


@pytest.mark.parametrize(("chosen", "is_named"), [({}, True), ({"including-tables": "o|p"}, False)])
def test_several_source_tables_in_the_messages_for_one_target_are_named_once(
    shop: Shop, caplog: pytest.LogCaptureFixture, chosen: dict[str, str], *, is_named: bool
) -> None:
    """Rows with the same key replace each other: two tables of 20 rows became one of 20, without a warning."""
    for number, name in enumerate(("o", "p", "o", "p")):
        shop.put(f"{number}.json", insert(name, {"id": 1, "v": name}))
    with caplog.at_level(logging.WARNING):
        reports_of(
            shop,
            "canal-json",
            sink={"table": "one", "primary-keys": ["id"], "table-options": {"bucket": "1"}},
            selection=chosen,
        )
    found = [text for text in caplog.messages if "rows_of_several_tables" in text]
    assert len(found) == is_named
    assert not is_named or "table=ods.one sources=shop.o,shop.p" in found[0]


def test_rows_that_a_transform_leaves_out_are_counted_one_by_one(shop: Shop) -> None:
    """Also where other rows of the same messages stay, and without those of refused messages."""
    rule = {"source-table": "shop.o", "filter": "cast(v as INT) > 0"}
    shop.put("1.json", insert("o", *({"id": number, "v": value} for number, value in enumerate(("1", "-1", "0", "2")))))
    shop.put("2.json", insert("o", {"id": 5, "v": "x"}, {"id": 6, "v": "-1"}))
    shop.put("3.json", change("UPDATE", "o", {"id": 0, "v": "-5"}, old=[{"v": "1"}]))
    errors = {"bad-record": "dead-letter", "dead-letter": {"max-per-batch": 9, "max-share": "100%"}}
    (report,) = reports_of(shop, "canal-json", transform=[rule], errors=errors)
    assert shop.ids("o") == [3]
    assert report.passed_over["rows.left.out"] == 3
    assert report.bad_count == 1


def test_options_without_effect_are_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.put("1.json", insert("o", {"id": 1}))
    alignment = {f"scan.watermark.alignment.{name}": "2 s" for name in ("group", "max-drift", "update-interval")}
    with caplog.at_level(logging.WARNING):
        run(shop.spec(sink={"table-options": {"bucket": "1", **alignment, "scan.watermark.idle-timeout": "1 s"}}))
    messages = [record.getMessage() for record in caplog.records if "options_without_effect" in record.getMessage()]
    assert len(messages) == 1
    assert {part.split(" (")[0] for part in messages[0].split('options="')[1].split("; ")} == set(alignment)


def test_options_without_effect_of_an_existing_table_are_reported_once_per_run(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog(f"{shop.folder}/warehouse")
    catalog.create_database("ods")
    options = {"bucket": "1", "file.block-size": "1 mb"}
    catalog.create_table("ods.o", [("id", "INT")], primary_keys=["id"], options=options)
    catalog.create_table("ods.of_others", [("id", "INT")], options={"file.block-size": "2 mb"})
    shop.put("1.json", insert("o", {"id": 1}))
    shop.put("2.json", insert("o", {"id": 2}))
    caplog.clear()
    checks._reported.clear()  # as in a process of its own
    with caplog.at_level(logging.WARNING):
        run(shop.spec())
    messages = [record.getMessage() for record in caplog.records if "options_without_effect" in record.getMessage()]
    assert len(messages) == 1
    assert 'of="ods.o" options="file.block-size (' in messages[0]


@pytest.mark.parametrize("more", [{"selection": {"excluding-tables": "o"}}, {"sink": {"no-primary-key": "skip"}}])
def test_rows_that_a_transform_refuses_of_a_table_that_is_left_out_are_counted(shop: Shop, more: Any) -> None:
    rule = {"source-table": "shop.o", "filter": "cast(v as INT) > 0"}
    rows = ({"id": 1, "v": "x"}, {"id": 2, "v": "-1"}, {"id": 3, "v": "2"})
    messages = [json.dumps(json.loads(insert("o", row)) | {"pkNames": []}) for row in rows]
    shop.put("1.json", *messages, insert("other", {"id": 1}))
    (report,) = reports_of(shop, "canal-json", transform=[rule], errors={"bad-record": "dead-letter"}, **more)
    assert (report.passed_over["rows.left.out"], report.bad_count) == (3, 0)
