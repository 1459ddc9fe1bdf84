"""A publication that was altered between two batches: the log may lack changes, even if it was altered back."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import SourceError
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.integration.postgres.test_altered_tables import settle

pytestmark = pytest.mark.postgres
PUBLICATION = f"{SLOT}_pub"
CHANGES = ("UPDATE t SET v = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 3)")
ALL_KINDS = "insert, update, delete, truncate"
# The statements before and after the changes, and the tables that may lack some.
ALTERED = {
    "kinds": ("SET (publish = 'insert')", f"SET (publish = '{ALL_KINDS}')", {"public.t", "public.u"}),
    "tables": ("DROP TABLE t", "ADD TABLE t", {"public.t"}),
    "rows": ("SET TABLE t WHERE (id > 9), u", "SET TABLE t, u", {"public.t"}),
    "columns": ("SET TABLE t (id), u", "SET TABLE t, u", {"public.t"}),
    "roots": (
        "SET (publish_via_partition_root = false)",
        "SET (publish_via_partition_root = true)",
        {"public.t", "public.u"},
    ),
}
UNALTERED = {
    "another table": (f"ALTER PUBLICATION {PUBLICATION} ADD TABLE n", f"ALTER PUBLICATION {PUBLICATION} DROP TABLE n"),
    "another publication": ("CREATE PUBLICATION another FOR TABLE t", "DROP PUBLICATION another"),
    "a column": ("ALTER TABLE t ADD COLUMN a int", "ALTER TABLE t DROP COLUMN a"),
    "the same tables": (f"ALTER PUBLICATION {PUBLICATION} SET TABLE t, u", "SELECT 1"),
    "a table that is gone": ("DROP TABLE u", "SELECT 1"),
}


def begin(server: PgPlayground, tmp_path: Path) -> PgSync:
    for table in ("t", "u"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path, flags=("--excluding-tables", "n"))
    sync.run()
    return sync


def warned(sync: PgSync, caplog: pytest.LogCaptureFixture) -> tuple[set[str], int]:
    """Run; return the tables that a warning names, and how many were counted."""
    counted: Counter[str] = Counter()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    found = [text.partition(" tables=")[2].split()[0] for text in caplog.messages if "publication_altered" in text]
    return {name for names in found for name in names.split(",")}, counted["messages.unpublished"]


@pytest.mark.parametrize("case", ALTERED)
def test_tables_that_may_lack_changes_are_named_and_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    before, after, wanted = ALTERED[case]
    sync = begin(server, tmp_path)
    server.run(f"ALTER PUBLICATION {PUBLICATION} {before}", *CHANGES, f"ALTER PUBLICATION {PUBLICATION} {after}")
    assert warned(sync, caplog) == (wanted, len(wanted))
    assert warned(sync, caplog) == (set(), 0)
    # As the warning says.
    PgSync(server, tmp_path, flags=(*sync.flags, "--reset", "ods.t")).run()
    settle(sync)
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 9, 3: 3}


@pytest.mark.parametrize("what", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_publications_of_all_tables_are_compared_too(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    server.run(f"CREATE PUBLICATION {PUBLICATION} {what}")
    sync = begin(server, tmp_path)
    server.create("n", "id int PRIMARY KEY")
    assert warned(sync, caplog) == (set(), 0)
    if "SCHEMA" in what:
        alter = [f"ALTER PUBLICATION {PUBLICATION} {how} TABLES IN SCHEMA public" for how in ("DROP", "ADD")]
    else:
        alter = [f"ALTER PUBLICATION {PUBLICATION} SET (publish = '{kinds}')" for kinds in ("insert", ALL_KINDS)]
    server.run(alter[0], *CHANGES, alter[1])
    assert warned(sync, caplog) == ({"public.t", "public.u"}, 2)


@pytest.mark.parametrize("case", UNALTERED)
def test_statements_that_leave_the_tables_published_are_no_reason_to_warn(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    sync = begin(server, tmp_path)
    server.create("n", "id int PRIMARY KEY")
    server.create("new", "id int PRIMARY KEY")
    server.run(*UNALTERED[case], "INSERT INTO t VALUES (7)")
    assert warned(sync, caplog) == (set(), 0)
    assert 7 in sync.rows("t")


RESTRICTED = {
    "kinds": ("SET (publish = 'insert')", "the publication leaves out changes"),
    "columns": ("SET TABLE t (id), u, r", "the publication lacks columns of t"),
    "roots": ("SET (publish_via_partition_root = false)", "changes of partitions would come under the names"),
    "tables": ("DROP TABLE t", "tables are not in the publication"),
}


@pytest.mark.parametrize("case", RESTRICTED)
def test_a_publication_that_leaves_out_changes_from_now_on_stops_the_pipeline_as_at_its_start(
    server: PgPlayground, tmp_path: Path, case: str
) -> None:
    alter, message = RESTRICTED[case]
    server.create("r", "id int PRIMARY KEY, v int) PARTITION BY RANGE (id")
    server.run("CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)")
    sync = begin(server, tmp_path)
    later = iter([f"ALTER PUBLICATION {PUBLICATION} {alter}", *CHANGES])
    server.run("INSERT INTO t VALUES (7, 7)")

    def alter_once(*_: object) -> None:
        server.run(*later, "SELECT 1")

    with pytest.raises(SourceError, match=message):
        sync.run(on_batch=alter_once)
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 1, 2: 2, 7: 7}
    # Also after a restart, which would add a new table to the publication.
    with pytest.raises(SourceError, match=message):
        sync.run()


def test_a_row_filter_that_is_added_is_reported_when_it_is_met(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path)
    later = iter([f"ALTER PUBLICATION {PUBLICATION} SET TABLE t WHERE (id > 9), u", *CHANGES])
    server.run("INSERT INTO t VALUES (7, 7)")
    counted: Counter[str] = Counter()

    def note(_: object, report: BatchReport) -> None:
        counted.update(report.passed_over)
        server.run(*later, "SELECT 1")

    with caplog.at_level(logging.WARNING):
        sync.run(on_batch=note)
    assert counted["messages.unpublished"] == 1
    assert "the publication lacks rows of t" in caplog.text


def test_a_table_may_leave_the_publication_once_it_is_excluded(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path)
    server.run(f"ALTER PUBLICATION {PUBLICATION} DROP TABLE u", "INSERT INTO t VALUES (7, 7)")
    PgSync(server, tmp_path, flags=("--excluding-tables", "n|u")).run()
    assert 7 in sync.rows("t")


def test_what_a_publication_leaves_out_of_other_tables_stops_no_pipeline(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path)
    server.create("n", "id int PRIMARY KEY, v int")
    server.run(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE n (id)", "INSERT INTO t VALUES (7, 7)")
    sync.run()
    assert 7 in sync.rows("t")
    server.create("o", "id int PRIMARY KEY")
    server.run("INSERT INTO o VALUES (1)")
    sync.run()
    assert list(sync.rows("o")) == [1]
