"""Dates and times that no table has a place for: nulls by default, bad records where that is asked for, and in keys."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from penstock.errors import DecodeError
from penstock.ingest.mysql.server.checks import check_source
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.server.table_checks import CheckedPlan
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

ODD = ["(1, '2024-01-01', '01:00:00')", "(2, '2024-00-10', '01:00:00')", "(3, '2024-01-02', '25:00:00')"]


def test_invalid_dates_in_keys_are_bad_records_row_by_row(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT, d DATE, c TIME(4), PRIMARY KEY (d, c))", "CREATE TABLE u (id INT PRIMARY KEY)")
    server.run(f"INSERT INTO t VALUES {', '.join(ODD)}, (4, '0000-00-00', '01:00:00')", "INSERT INTO u VALUES (1)")
    failing, isolated = Sync(server, tmp_path / "f"), Sync(server, tmp_path / "i", flags=["--isolate", "true"])
    skipping = Sync(server, tmp_path / "s", flags=["--on-bad-record", "skip"])
    texts = Sync(server, tmp_path / "t", flags=["--type-mapping", "to-string"])
    with connected(server.address) as connection:
        warned = [
            item
            for item in check_source(connection, CheckedPlan([(DATABASE, "t")]))
            if "TIME columns in its key" in item.message
        ]
    assert [item.level for item in warned] == ["warning"]
    with pytest.raises(DecodeError, match=r"2024-00-10' is a zero date \(column of a key; --type-mapping to-string"):
        failing.run()
    for turn in range(2):
        for sync in (isolated, skipping, texts):
            sync.run()
        assert (isolated.ids("t"), isolated.ids("u")) == ([], [1, 2][: turn + 1])
        assert skipping.ids("t") == [1, 4, 5][: turn + 2]
        assert len(texts.rows("t")) == 4 + 4 * turn
        verdicts = {verdict.table: verdict for verdict in skipping.verified()}
        assert (verdicts["ods.t"].is_equal, verdicts["ods.t"].unfit) == (True, 2 + 3 * turn)
        assert all(verdict.is_equal for verdict in texts.verified())
        server.run("REPLACE INTO t VALUES (5, '2024-05-05', '01:00:00'), (6, '2024-10-00', '02:00:00')")
        server.run(
            "REPLACE INTO t VALUES (7, '2024-05-05', '-00:00:00.001'), (8, '2024-05-05', '01:00:00.0001')",
            "REPLACE INTO u VALUES (2)",
        )


def test_timestamps_in_keys_that_clocks_show_twice_are_bad_records(mysql: Playground, tmp_path: Path) -> None:
    """Two rows of one hour in autumn became one without an error."""
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT, at TIMESTAMP, PRIMARY KEY (id, at))")
    hours = ["(1, '2024-10-27 00:30:00')", "(1, '2024-10-27 01:30:00')", "(1, '2024-10-27 02:30:00')"]
    mysql.run("SET SESSION time_zone = '+00:00'", f"INSERT INTO t VALUES {', '.join(hours)}")
    conf = ["server-time-zone=Europe/Berlin"]
    failing, skipping = Sync(mysql, tmp_path / "f", conf=conf), Sync(mysql, tmp_path / "s", conf=conf)
    skipping.flags = ["--on-bad-record", "skip"]
    texts = Sync(mysql, tmp_path / "t", conf=conf, flags=["--type-mapping", "to-string"])
    for zone, messages in (("Europe/Berlin", 1), ("Asia/Tokyo", 0)):
        with connected(mysql.address) as connection:
            found = check_source(connection, CheckedPlan([(DATABASE, "t")], zone=zone))
        assert len([item for item in found if "show an hour of each year twice" in item.message]) == messages
    with pytest.raises(DecodeError, match=r"at TIMESTAMP.*02:30:00.*\+01:00' has an offset.*server-time-zone: UTC"):
        failing.run()
    for turn in range(2):
        skipping.run()
        texts.run()
        assert [row["at"].hour for row in skipping.rows("t")] == [2, 3] * (turn + 1)
        assert len(texts.rows("t")) == 3 * (turn + 1)
        (verdict,) = skipping.verified()
        assert (verdict.is_equal, verdict.unfit) == (True, turn + 1)
        assert all(verdict.is_equal for verdict in texts.verified())
        again = ", ".join(hours).replace("(1", "(2")
        mysql.run("SET SESSION time_zone = '+00:00'", f"REPLACE INTO t VALUES {again}")


def test_numbers_in_a_key_that_is_boolean_do_not_become_one_row(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT, kind TINYINT(1), PRIMARY KEY (id, kind))")
    server.run("INSERT INTO t VALUES (1, 0), (1, 1), (1, 2)")
    failing, skipping = Sync(server, tmp_path / "f"), Sync(server, tmp_path / "s", flags=["--on-bad-record", "skip"])
    numbers = Sync(server, tmp_path / "n", flags=["--type-mapping", "tinyint1-not-bool"])
    with pytest.raises(DecodeError, match=r"kind BOOLEAN.*2' cannot be stored exactly.*tinyint1-not-bool keeps"):
        failing.run()
    for turn in range(2):
        skipping.run()
        numbers.run()
        assert len(skipping.rows("t")) == 2
        assert len(numbers.rows("t")) == 3 + turn
        (verdict,) = skipping.verified()
        assert (verdict.is_equal, verdict.unfit) == (True, 1 + turn)
        assert all(verdict.is_equal for verdict in numbers.verified())
        server.run("INSERT INTO t VALUES (1, 3)" if not turn else "DELETE FROM t")


def test_a_strict_rule_makes_bad_records_in_snapshot_and_binlog(server: Playground, tmp_path: Path) -> None:
    rows = ["'2024-01-01', '2024-01-01 00:00:00', '01:00:00'", "'0000-00-00', NULL, NULL", "NULL, NULL, '25:00:00'"]
    rows.append("NULL, '0000-00-00 00:00:00', NULL")
    server.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE, s TIMESTAMP NULL, c TIME)")
    server.run(*(f"INSERT INTO t VALUES ({n}, {row})" for n, row in enumerate(rows)))
    conf = ["server-time-zone=Asia/Shanghai"]
    strict = Sync(server, tmp_path / "s", conf=conf)
    strict.flags = ["--type-mapping", "zero-date-error", "--on-bad-record", "skip"]
    texts = Sync(server, tmp_path / "t", conf=conf, flags=["--type-mapping", "to-string"])
    for first in (0, 10):
        strict.run()
        texts.run()
        found = [(row["id"], row["s"]) for row in strict.rows("t")]
        assert found == [(n, datetime(2024, 1, 1, 8)) for n in (0, 10)[: 1 + first // 10]]
        assert {row["s"] for row in texts.rows("t")} == {
            "2024-01-01 08:00:00.000000",
            "0000-00-00 00:00:00.000000",
            None,
        }
        assert all(verdict.is_equal for verdict in (*strict.verified(), *texts.verified()))
        server.run(*(f"REPLACE INTO t VALUES ({10 + n}, {row})" for n, row in enumerate(rows)))
