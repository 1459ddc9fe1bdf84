"""The behaviour of Paimon's actions with a MongoDB source that no other test compares."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from penstock.ingest.mongodb.errors import PostImageMissing
from penstock.pipelines.commands.main import main
from penstock.table.catalog.catalog import Catalog
from tests.integration.mongodb.sync import MongoPlayground, MongoSync

pytestmark = pytest.mark.mongodb


def columns(sync: MongoSync, name: str) -> list[str]:
    return [field.name for field in sync.target(name).definition.fields]


def verify(sync: MongoSync) -> int:
    return main(["verify", "mongodb-sync-table" if sync.table else "mongodb-sync-database", *sync.words])


def test_names_of_collections_and_tables(
    server: MongoPlayground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Affixes and mappings, patterns over the source's names, a table that exists, names in mixed case."""
    db = server.db
    db.T1.insert_one({"_id": 1, "Name": "a"})
    db.t2.insert_many([{"_id": 1, "V": "x"}, {"_id": 2, "v": "y"}])
    db.mapped.insert_one({"_id": 1})
    for left_out in ("t2_hidden", "other", "ods_t1_s"):
        db[left_out].insert_one({"_id": 1})
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods")
    catalog.create_table("ods.p_t1_s", [("_id", "STRING NOT NULL"), ("name", "STRING")], primary_keys=["_id"])
    flags = [
        *("--table-prefix", "p_", "--table-suffix", "_s", "--table-mapping", "mapped=chosen"),
        *("--including-tables", "(?i)t.+|mapped", "--excluding-tables", ".*_hidden"),
        *("--catalog-conf", "case-sensitive=false", "--table-conf", "bucket=1"),
    ]
    sync = MongoSync(server, tmp_path, flags=flags)
    sync.run()
    db.t3.insert_one({"_id": 3, "City": "Rome"})
    db.T1.update_one({"_id": 1}, {"$set": {"NAME2": "b"}})
    db.T1.insert_one({"_id": 2, "Name": ""})
    sync.flags = [*flags, "--table-conf", "snapshot.num-retained.max=20", "--table-conf", "bucket=2"]
    sync.run()
    assert sync.tables() == ["chosen", "p_t1_s", "p_t2_s", "p_t3_s"]
    assert columns(sync, "p_t1_s") == ["_id", "name", "name2"]
    assert sync.rows("p_t1_s") == {
        "1": {"_id": "1", "name": "a", "name2": "b"},
        "2": {"_id": "2", "name": "", "name2": None},
    }
    assert sync.rows("p_t2_s") == {"1": {"_id": "1", "v": "x"}, "2": {"_id": "2", "v": "y"}}
    assert sync.rows("p_t3_s") == {"3": {"_id": "3", "city": "Rome"}}
    options = {name: sync.target(name).definition.options for name in sync.tables()}
    assert {name: found.get("bucket") for name, found in options.items()} == {
        "chosen": "1",
        "p_t1_s": None,
        "p_t2_s": "1",
        "p_t3_s": "2",
    }
    assert {found["snapshot.num-retained.max"] for found in options.values()} == {"20"}
    assert verify(sync) == 0
    assert capsys.readouterr().out.count("equal    ods.") == 4


def test_computed_columns_and_paths_read_texts_numbers_and_times(server: MongoPlayground, tmp_path: Path) -> None:
    at = dt.datetime(2024, 1, 1, 10, 11, 12)
    server.db.t.insert_many(
        [{"_id": 1, "At": "2023-03-23 10:11:12", "sec": 1679566272, "s": "abc", "doc": {"at": at, "n": 7}}, {"_id": 2}]
    )
    computed = {
        "y": "year(At)",
        "h": "hour(at)",
        "of_seconds": "date_format(SEC, yyyy-MM-dd, 0)",
        "part": "substring(s, 1, 3)",
        "same": "cast(const, STRING)",
        "of_computed": "concat(part, same)",
    }
    flags = [word for name, rule in computed.items() for word in ("--computed-column", f"{name}={rule}")]
    dynamic = MongoSync(server, tmp_path / "dynamic", "t", flags=[*flags, "--catalog-conf", "case-sensitive=false"])
    dynamic.run()
    names = "schema.start.mode=specified", "field.name=_id,millis,n", "parser.path=$._id,$.doc.at.$date,$['doc'].n"
    flags = ["--computed-column", "day=date_format(millis, yyyy-MM-dd, 3)"]
    specified = MongoSync(server, tmp_path / "specified", "t", names, flags)
    specified.run()
    server.db.t.insert_one({"_id": 3, "s": "later", "doc": {"at": at + dt.timedelta(days=1)}})
    dynamic.run()
    specified.run()
    rows = [[row[name] for name in computed] for _, row in sorted(dynamic.rows().items())]
    assert rows == [
        [2023, 10, "2023-03-23", "bc", "const", "bcconst"],
        [None, None, None, None, "const", None],
        [None, None, None, "at", "const", "atconst"],
    ]
    assert specified.rows() == {
        "1": {"_id": "1", "millis": "1704103872000", "n": "7", "day": "2024-01-01"},
        "2": {"_id": "2", "millis": None, "n": None, "day": None},
        "3": {"_id": "3", "millis": "1704190272000", "n": None, "day": "2024-01-02"},
    }
    assert (verify(dynamic), verify(specified)) == (0, 0)


def test_a_partition_computed_of_the_id_needs_no_old_documents(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_many([{"_id": f"{n % 3}-{n}", "v": n} for n in range(6)])
    flags = [
        *("--computed-column", "part=substring(_id, 0, 1)", "--metadata-column", "database_name,table_name,op_ts"),
        *("--metadata-column-prefix", "m_", "--partition-keys", "m_table_name,part"),
        *("--primary-keys", "m_table_name,part,_id"),
    ]
    sync = MongoSync(server, tmp_path, "t", flags=flags)
    sync.run()
    server.db.t.delete_one({"_id": "1-1"})
    server.db.t.update_one({"_id": "2-2"}, {"$set": {"v": "new"}})
    server.db.t.insert_one({"_id": "9-9", "v": None})
    sync.run()
    rows = sync.rows()
    assert {key: (row["v"], row["part"]) for key, row in rows.items()} == {
        document["_id"]: (None if document["v"] is None else str(document["v"]), document["_id"][0])
        for document in server.db.t.find()
    }
    assert (len(rows), rows["2-2"]["v"]) == (6, "new")
    assert {(row["m_database_name"], row["m_table_name"]) for row in rows.values()} == {("play", "t")}
    assert {key for key, row in rows.items() if row["m_op_ts"].timestamp() == 0} == {"0-0", "0-3", "1-4", "2-5"}
    assert sync.target().partition_keys == ["m_table_name", "part"]


def test_rows_move_between_partitions_if_events_have_old_documents(
    server: MongoPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.db.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
    server.db.t.insert_many([{"_id": n, "day": f"2024-01-0{n % 3 + 1}"} for n in range(6)])
    sync = MongoSync(server, tmp_path, "t", flags=["--primary-keys", "_id,day", "--partition-keys", "day"])
    sync.run()
    assert "event=old_documents_missing collection=play.t" in caplog.text
    server.db.t.delete_one({"_id": 1})
    server.db.t.update_one({"_id": 2}, {"$set": {"day": "2024-01-09"}})
    with pytest.raises(PostImageMissing, match="lack the old document"):
        sync.run()
    caplog.clear()
    sync.conf = ["scan.full-changelog=true"]
    sync.run()
    assert "old_documents_missing" not in caplog.text
    assert {key: row["day"] for key, row in sync.rows().items()} == {
        **{str(n): f"2024-01-0{n % 3 + 1}" for n in (0, 3, 4, 5)},
        "2": "2024-01-09",
    }
    assert verify(sync) == 0


def test_reading_again_repairs_a_table_that_needed_old_documents(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_many([{"_id": n, "day": f"2024-01-0{n + 1}"} for n in range(3)])
    sync = MongoSync(server, tmp_path, "t", flags=["--primary-keys", "_id,day", "--partition-keys", "day"])
    sync.run()
    server.db.t.delete_one({"_id": 1})
    for _ in range(2):
        with pytest.raises(PostImageMissing, match="lack the old document"):
            sync.run()
    # The batch is in the checkpoint, and the server never kept the old documents.
    server.db.command({"collMod": "t", "changeStreamPreAndPostImages": {"enabled": True}})
    sync.conf = ["scan.full-changelog=true"]
    flags = sync.flags
    sync.flags = [*flags, "--resnapshot"]
    sync.run()
    sync.flags = flags
    server.db.t.update_one({"_id": 2}, {"$set": {"day": "2024-01-09"}})
    sync.run()
    assert {key: row["day"] for key, row in sync.rows().items()} == {"0": "2024-01-01", "2": "2024-01-09"}


def test_deletes_are_applied_or_logged_in_tables_ordered_by_a_field(
    server: MongoPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.db.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
    server.db.t.insert_many([{"_id": n, "v": n} for n in range(3)])
    sync = MongoSync(server, tmp_path, "t", flags=["--table-conf", "sequence.field=v"])
    sync.run()
    server.db.t.update_one({"_id": 0}, {"$set": {"v": 5}})
    server.db.t.delete_one({"_id": 1})
    sync.run()
    assert "event=deletes_without_effect table=play.t deletes=1 missing=v" in caplog.text
    sync.conf = ["scan.full-changelog=true"]
    sync.flags = [*sync.flags, "--reset", "t"]
    sync.run()
    assert {key: row["v"] for key, row in sync.rows().items()} == {"0": "5", "2": "2"}
    server.db.t.delete_one({"_id": 2})
    sync.flags = sync.flags[:-2]
    sync.run()
    assert set(sync.rows()) == {"0"}
    assert verify(sync) == 0
