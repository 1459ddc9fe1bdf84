"""The recorded workload (tests/data/cdc-recorded/workload-*.sql), decoded from the servers' own log files."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from penstock.formats.change import ImageRule
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.errors import ChecksumMismatch, SchemaHistoryMismatch, UnsupportedBinlogEvent
from penstock.ingest.mysql.table_choice import TheseTables
from tests.binlog_files import file_segments
from tests.unit.ingest.mysql.logs import LOGS, NAMED, UNNAMED, batches, changes


@pytest.mark.parametrize("log", NAMED)
def test_the_keyless_table_shows_every_kind_of_change_in_order(log: str) -> None:
    found = changes(batches(log, BinlogOptions()))["no_key"]
    assert [(kind, row["a"], row["b"]) for kind, row in found] == [
        ("+I", 1, "x"),
        ("+I", 1, "x"),
        ("+I", None, None),
        ("+I", 5, "in tx"),
        ("-U", 1, "x"),
        ("+U", 1, "y"),
        ("-U", 1, "x"),
        ("+U", 1, "y"),
        ("-D", None, None),
        ("+I", 999, "END"),
    ]


@pytest.mark.parametrize("log", NAMED)
def test_a_changed_key_is_a_deletion_and_an_insertion(log: str) -> None:
    found = changes(batches(log, BinlogOptions()))["two_keys"]
    moved = [(kind, row["region"], row["v"]) for kind, row in found if row["v"] in {"eins", "un"}]
    assert moved == [("+I", "de", "eins"), ("-D", "de", "eins"), ("+I", "fr", "un")]


@pytest.mark.parametrize("log", NAMED)
def test_rolled_back_changes_are_not_read(log: str) -> None:
    found = changes(batches(log, BinlogOptions()))
    assert not any(row["customer"] == "never" for _, row in found["orders"])
    assert not any(kind == "-D" and row["v"] == "uno" for kind, row in found["two_keys"])


@pytest.mark.parametrize("log", NAMED)
def test_ddl_changes_the_schema_of_later_rows(log: str) -> None:
    shapes = {tuple(field.name for field in batch.schema.fields) for batch in batches(log, BinlogOptions())}
    assert ("order_id", "customer", "amount", "status", "updated") in shapes
    assert ("first_one", "order_id", "customer", "mid", "amount", "status", "updated", "note", "x1", "x2") in shapes
    assert ("first_one", "order_id", "customer", "mid", "amount", "status", "updated", "remark2") in shapes


@pytest.mark.parametrize("log", NAMED[1:])
def test_every_cell_is_equal_for_all_servers_and_settings(log: str) -> None:
    plain, other = (changes(batches(name, BinlogOptions())) for name in ("mysql-plain", log))
    assert plain.keys() == other.keys()
    for table in plain:
        assert len(plain[table]) == len(other[table])
        for (kind, row), (other_kind, other_row) in zip(plain[table], other[table], strict=True):
            assert (kind, _readable(row)) == (other_kind, _readable(other_row))


def _readable(row: dict[str, object]) -> dict[str, object]:
    # MariaDB keeps JSON as the text that came in; MySQL prints its own.
    return {
        name: json.loads(value) if isinstance(value, str) and name in {"c_json", "v"} and value[:1] in "[{" else value
        for name, value in row.items()
    }


def test_ordinary_values_of_every_type() -> None:
    found = changes(batches("mysql-plain", BinlogOptions()))["all_types"]
    row = next(row for _, row in found if row["id"] == 1)
    assert row["c_tiu"] == 200
    assert row["c_mi"] == -800000
    assert row["c_biu"] == 9_000_000_000
    assert row["c_dec"] == Decimal("12345.67")
    assert row["c_dec65"] == "12345678901234567890123456789012345.123456789012345678901234567891"
    assert row["c_dec0"] == Decimal(12345678901234567890)
    assert row["c_bit1"] is True
    assert row["c_bit33"] == b"\x01\x00\x00\x00\x01"
    assert row["c_date"] == dt.date(2024, 2, 29)
    assert row["c_dt6"] == dt.datetime(2024, 2, 29, 12, 34, 56, 789012)
    assert row["c_ts3"] == dt.datetime(2024, 2, 29, 12, 34, 56, 789000, dt.UTC)
    assert row["c_time"] == dt.time(12, 34, 56)
    assert row["c_vc"] == "中文 and 😀 emoji"
    assert row["c_latin"] == "café"
    assert row["c_gbk"] == "汉字"
    assert row["c_bin"] == b"\x01\x02\x03\x04"
    assert row["c_enum"] == "中"
    assert row["c_set"] == ["a", "ç"]
    assert row["c_json"] == '{"a": 1, "b": [true, null, 1.5, "中"], "d": -25000000000.0, "big": 18446744073709551615}'
    assert row["c_pt"] == '{"coordinates":[-1.5,2.5],"type":"Point","srid":0}'


def test_the_declared_type_is_read_from_the_binlog() -> None:
    batch = next(batch for batch in batches("mysql-plain", BinlogOptions()) if batch.schema.table == "all_types")
    declared = {field.name: field.type for field in batch.schema.fields}
    assert declared["c_tiu"] == "tinyint unsigned"
    assert declared["c_vc"] == "varchar(300)"
    assert declared["c_gbk"] == "varchar(20)"
    assert declared["c_vb"] == "varbinary(300)"
    assert declared["c_mt"] == "mediumtext"
    assert declared["c_lb"] == "longblob"
    assert declared["c_time6"] == "time(6)"
    assert declared["c_gc"] == "geometrycollection"
    assert batch.schema.primary_keys == ("id",)
    assert batch.schema.dialect == "mysql"


@pytest.mark.parametrize("log", NAMED)
@pytest.mark.parametrize("block_bytes", [pytest.param(300, marks=pytest.mark.slow), 5000])
def test_blocks_of_any_size_return_the_same_rows_at_the_same_offsets(log: str, block_bytes: int) -> None:
    whole, parts = (_placed(batches(log, BinlogOptions(), size)) for size in (1 << 20, block_bytes))
    assert whole == parts


def _placed(found: list) -> list:
    rows = [
        (batch.schema.table, int(pos), int(sub), int(kind))
        for batch in found
        for pos, sub, kind in zip(batch.positions, batch.subs, batch.kinds, strict=True)
    ]
    places = [row[1:3] for row in rows]
    assert len(set(places)) == len(places)
    return sorted(rows)


@pytest.mark.parametrize("spelling", ["b", "B"])  # of a catalog that folds names
def test_before_images_are_omitted_unless_the_row_moves(spelling: str) -> None:
    options = BinlogOptions(default_images=ImageRule("key-changes"))
    found = changes(batches("mysql-plain", options))
    assert [kind for kind, row in found["two_keys"] if row["v"] in {"eins", "un"}] == ["+I", "-D", "+I"]
    assert "-U" not in {kind for rows in found.values() for kind, _ in rows}
    watched = BinlogOptions(images={("rec", "no_key"): ImageRule("key-changes", frozenset({spelling}))})
    assert [kind for kind, _ in changes(batches("mysql-plain", watched))["no_key"]][4:8] == ["-D", "+I", "-D", "+I"]


def test_only_chosen_tables_are_read() -> None:
    options = BinlogOptions(choice=TheseTables(frozenset({("rec", "orders")})))
    assert changes(batches("mysql-plain", options)).keys() == {"orders"}


@pytest.mark.parametrize("log", UNNAMED)
def test_a_log_without_names_is_refused_without_a_definition(log: str) -> None:
    with pytest.raises(SchemaHistoryMismatch) as caught:
        batches(log, BinlogOptions())
    assert caught.value.facts["table"] == "rec.all_types"
    assert "binlog_row_metadata" in str(caught.value)


def test_a_damaged_event_is_found_by_its_checksum(tmp_path) -> None:
    raw = bytearray((LOGS / "mysql-plain.000001").read_bytes())
    raw[9000] ^= 1
    damaged = tmp_path / "damaged.000001"
    damaged.write_bytes(raw)
    with pytest.raises(ChecksumMismatch) as caught:
        list(file_segments(damaged))
    assert caught.value.retryable


def test_an_event_of_an_unknown_kind_is_refused_unless_it_may_be_skipped(tmp_path) -> None:
    raw = bytearray((LOGS / "mysql-plain.000001").read_bytes())
    first = next(iter(file_segments(LOGS / "mysql-plain.000001")))
    at = int(first.pos[3])
    raw[at + 4] = 120
    changed = tmp_path / "changed.000001"
    changed.write_bytes(raw)
    with pytest.raises(UnsupportedBinlogEvent) as caught:
        list(file_segments(changed, verify=False))
    assert caught.value.facts == {"type": 120, "file": "changed.000001", "pos": at}
    raw[at + 17] |= 0x80
    changed.write_bytes(raw)
    assert sum(map(len, file_segments(changed, verify=False))) == sum(
        map(len, file_segments(LOGS / "mysql-plain.000001"))
    )
