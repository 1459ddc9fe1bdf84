"""Missing settings of a server are reported before anything is read, each with the statement that corrects it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ServerFinding
from penstock.ingest.postgres.errors import AmbiguousKey
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import list_tables
from penstock.ingest.postgres.server.checks import check_server
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.publication import Publication
from penstock.pipelines.commands.main import main
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.integration.postgres.sync import DATABASE, SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def found(server: PgPlayground, user: str = "cdc", *, creates: bool = True) -> dict[str, ServerFinding]:
    """Return the findings by the names of their errors."""
    with connected(PgAddress("127.0.0.1", server.port, user, "cdc", DATABASE)) as connection:
        tables = list_tables(connection)
        return {item.error.__name__: item for item in check_server(connection, "s", Publication("p", creates), tables)}


def test_missing_rights_and_publications_are_named(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.run("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN", "REVOKE ALL ON t FROM plain, public")
    findings = found(server, "plain")
    assert findings["MissingGrant"].fix == (
        'GRANT USAGE ON SCHEMA "public" TO "plain"; GRANT SELECT ON "public"."t" TO "plain";'
    )
    missing = found(server, creates=False)["PublicationMissing"]
    assert (missing.level, missing.fix) == (
        "error",
        'CREATE PUBLICATION "p" FOR TABLE "public"."t" WITH (publish_via_partition_root = true);',
    )
    assert found(server)["PublicationMissing"].level == "warning"
    # What the user may not do is an error before anything is created, and what it may do is only a warning.
    refused = found(server, "plain")["PublicationMissing"]
    assert (refused.level, refused.message) == (
        "error",
        "the publication p does not exist, and the user may not change that",
    )
    assert refused.fix.startswith('as the owner of the tables:  CREATE PUBLICATION "p" FOR TABLE "public"."t"')
    server.run(f"GRANT CREATE ON DATABASE {DATABASE} TO plain", "ALTER TABLE t OWNER TO plain")
    assert found(server, "plain")["PublicationMissing"].level == "warning"
    server.run("CREATE PUBLICATION p", "GRANT SELECT ON t TO plain")
    assert found(server, "plain")["TableNotPublished"].level == "error", "the publication has another owner"
    server.run(
        "DROP PUBLICATION p", "ALTER TABLE t OWNER TO CURRENT_USER", f"REVOKE CREATE ON DATABASE {DATABASE} FROM plain"
    )
    server.run("DROP ROLE plain")


def test_policies_that_hide_rows_from_the_user_are_named(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "CREATE PUBLICATION p FOR TABLE t")
    server.run("CREATE POLICY mine ON t USING (id = 1)")
    assert "MissingGrant" not in found(server), "the policy is not enforced"
    server.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    assert "MissingGrant" not in found(server), "the user owns the table"
    server.run("ALTER TABLE t FORCE ROW LEVEL SECURITY")
    finding = found(server)["MissingGrant"]
    assert (finding.level, finding.fix) == ("error", 'ALTER ROLE "cdc" BYPASSRLS;  or exclude the table')
    with (
        connected(PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE)) as connection,
        pytest.raises(SourceError, match="denied access"),
    ):
        connection.rows("SELECT * FROM t")  # as after a policy that was made while the pipeline runs
    server.run("ALTER ROLE cdc BYPASSRLS")
    try:
        assert "MissingGrant" not in found(server)
    finally:
        server.run("ALTER ROLE cdc NOBYPASSRLS")


def test_publications_that_lack_tables_columns_or_changes_are_named(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.create("u", "id int PRIMARY KEY")
    server.run("CREATE PUBLICATION p FOR TABLE t (id)")
    findings = found(server, creates=False)
    assert findings["TableNotPublished"].fix == 'ALTER PUBLICATION "p" ADD TABLE "public"."u";'
    assert "lacks columns of t" in findings["PublicationMissing"].message
    server.run("DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE t, u WITH (publish = 'insert')")
    assert found(server)["PublicationMissing"].message == "the publication leaves out changes"
    server.run("DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE t, u", "ALTER TABLE u REPLICA IDENTITY NOTHING")
    findings = found(server)
    assert list(findings) == ["IdentityTooWeak"]
    assert findings["IdentityTooWeak"].seen == "REPLICA IDENTITY NOTHING"


def test_keys_that_would_become_one_are_refused(server: PgPlayground) -> None:
    server.run("CREATE DOMAIN flags AS bit varying(16)", "CREATE DOMAIN own_flags AS flags")
    server.create("fixed", "k bit(2), v bit varying(4), PRIMARY KEY (k) INCLUDE (v)")
    assert "AmbiguousKey" not in found(server)
    for kind in ("bit varying(4)", "own_flags"):
        server.create("t", f'id int, "K" {kind}, PRIMARY KEY (id, "K")')
        finding = found(server)["AmbiguousKey"]
        assert finding.level == "error"
        assert finding.message.startswith('the key column "K" of t has no number of bits')
        # As the error says.
        server.run(finding.fix.partition(";")[0])
        assert "AmbiguousKey" not in found(server)
        server.run("DROP TABLE t")


def test_a_table_with_such_a_key_is_refused_too_if_it_is_made_in_a_run(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (1)")
    later = iter(["CREATE TABLE u (k bit varying(4) PRIMARY KEY)", "ALTER TABLE u OWNER TO cdc"])
    with pytest.raises(AmbiguousKey, match="the key column k of u"):
        sync.run(on_batch=lambda *_: server.run(*later, "SELECT 1") and None)
    assert sync.tables() == ["t"]


def test_foreign_partitions_are_named(server: PgPlayground) -> None:
    server.run("CREATE EXTENSION file_fdw", "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
    server.create("t", "id int) PARTITION BY RANGE (id")
    options = "OPTIONS (program 'echo 11')"
    server.run(f"CREATE FOREIGN TABLE t_old PARTITION OF t FOR VALUES FROM (0) TO (9) SERVER files {options}")
    finding = found(server)["SourceError"]
    assert (finding.level, finding.message) == ("warning", "no log has the changes of the partition t_old of t")


def test_a_slot_of_something_else_is_named(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY")
    server.run("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    other = found(server)["SlotMissing"]
    assert (other.level, other.seen, other.wanted) == ("error", "plugin test_decoding", "pgoutput")
    server.run("SELECT pg_drop_replication_slot('s')", "SELECT pg_create_physical_replication_slot('s')")
    assert found(server)["SlotMissing"].seen == "a physical slot"
    server.run("SELECT pg_drop_replication_slot('s')")
    server.run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')", database="postgres")
    assert found(server)["SlotMissing"].message == "the slot s belongs to another database"
    server.run("SELECT pg_drop_replication_slot('s')", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    assert "SlotMissing" not in found(server)


def test_a_slot_that_another_pipeline_may_read_is_named_to_a_new_one(
    server: PgPlayground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.create("t", "id int PRIMARY KEY")
    named = f"the slot {SLOT} exists, at "
    first, second = PgSync(server, tmp_path / "first"), PgSync(server, tmp_path / "second")
    assert main(["check", first.command, *first.words]) == 0
    assert named not in capsys.readouterr().out
    first.run()
    for sync, warns in ((first, False), (second, True)):
        assert main(["check", sync.command, *sync.words]) == 0
        assert (named in capsys.readouterr().out) == warns


def test_tables_that_are_left_out_are_named_by_check_and_status(
    server: PgPlayground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.create("t", "id int PRIMARY KEY")
    server.create("keyless", "id int")
    server.run("CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)", "ALTER TABLE unlogged OWNER TO cdc")
    sync, reports = PgSync(server, tmp_path), list[BatchReport]()
    assert main(["check", sync.command, *sync.words]) == 0
    shown = capsys.readouterr().out
    keyless = "the source table has no primary key: ALTER TABLE ... ADD PRIMARY KEY"
    unlogged = "the source table is UNLOGGED, so no log has its changes: ALTER TABLE ... SET LOGGED"
    assert f"public.keyless is left out: {keyless}" in shown
    assert f"public.unlogged is left out: {unlogged}" in shown
    assert "append" not in shown, "no such rows are captured from PostgreSQL"
    sync.run(on_batch=lambda _, report: reports.append(report))
    assert reports[-1].stats.left_out == {
        "ods.keyless": f"{keyless} (source public.keyless)",
        "ods.unlogged": f"{unlogged} (source public.unlogged)",
    }
    server.run("ALTER TABLE keyless ADD PRIMARY KEY (id)", "ALTER TABLE unlogged SET LOGGED")
    sync.run(on_batch=lambda _, report: reports.append(report))
    assert reports[-1].stats.left_out == {}
    assert sync.tables() == ["keyless", "t", "unlogged"]
