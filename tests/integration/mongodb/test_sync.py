"""Paimon's MongoDB actions against a server: snapshot, change stream, restart, new names, values, lost history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from bson import ObjectId

from penstock.errors import ConfigError, SourceError
from penstock.ingest.mongodb import planner
from penstock.ingest.mongodb.errors import EmptyCollection, OplogLost
from penstock.ingest.mongodb.log.stream import LogPart, require_stream
from penstock.ingest.mongodb.server import checks, collections
from penstock.ingest.mongodb.server.connection import MongoConnection
from penstock.ingest.mongodb.source import MongoSource
from penstock.ingest.source import Offsets
from penstock.pipelines.api.dead_letters import letters_of
from penstock.pipelines.api.replay_dead_letters import replay
from penstock.pipelines.commands.main import main
from penstock.pipelines.config.rules import TransformConfig
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.here import run
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.servers.launch import running

pytestmark = pytest.mark.mongodb


def test_collection_is_copied_followed_and_continued_after_a_restart(server: MongoPlayground, tmp_path: Path) -> None:
    orders = server.db.orders
    orders.insert_many([{"_id": i, "name": f"name {i}", "address": {"city": "Rome", "zip": i}} for i in range(250)])
    sync = MongoSync(server, tmp_path, "orders")
    sync.run()
    rows = sync.rows()
    assert len(rows) == 250
    assert rows["3"] == {"_id": "3", "name": "name 3", "address": '{"city":"Rome","zip":3}'}
    orders.update_many({"_id": {"$lt": 10}}, {"$set": {"name": "changed"}})
    orders.delete_many({"_id": {"$gte": 10, "$lt": 20}})
    orders.insert_one({"_id": 1000, "name": "new"})
    orders.replace_one({"_id": 30}, {"name": "replaced"})
    orders.update_one({"_id": 31}, {"$set": {"name": "then deleted"}})
    orders.delete_one({"_id": 31})
    sync.run()
    rows = sync.rows()
    assert set(rows) == {str(i) for i in (*range(10), *range(20, 31), *range(32, 250), 1000)}
    assert (rows["3"]["name"], rows["1000"]["name"]) == ("changed", "new")
    assert rows["30"] == {"_id": "30", "name": "replaced", "address": None}
    before = sync.target().store.snapshots.latest_id()
    sync.run()
    assert sync.target().store.snapshots.latest_id() == before


def test_snapshot_in_chunks_over_keys_of_several_types(server: MongoPlayground, tmp_path: Path) -> None:
    keys = [*range(40), *(f"text {i}" for i in range(40)), *(ObjectId() for _ in range(40)), {"a": 1}, 2.5]
    server.db.mixed.insert_many([{"_id": key, "n": number} for number, key in enumerate(keys)])
    sync = MongoSync(server, tmp_path, "mixed", ["scan.incremental.snapshot.chunk.size=7"])
    sync.run()
    rows = sync.rows()
    assert len(rows) == len(keys)
    assert rows[str(keys[85])]["n"] == "85"
    assert rows['{"a":1}']["n"] == "120"
    assert rows["2.5"]["n"] == "121"


def test_new_names_become_columns(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1, "a": "x"})
    sync = MongoSync(server, tmp_path, "t")
    sync.run()
    server.db.t.insert_many([{"_id": 2, "b": {"c": [1, 2]}}, {"_id": 3, "a": 7}, {"_id": 4, "d": None}])
    sync.run()
    assert sync.rows() == {
        "1": {"_id": "1", "a": "x", "b": None, "d": None},
        "2": {"_id": "2", "a": None, "b": '{"c":[1,2]}', "d": None},
        "3": {"_id": "3", "a": "7", "b": None, "d": None},
        "4": {"_id": "4", "a": None, "b": None, "d": None},
    }


def test_database_with_collections_that_are_added_later_or_renamed(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.orders.insert_one({"_id": 1, "a": "x"})
    server.db.create_collection("empty")
    sync = MongoSync(server, tmp_path, flags=["--excluding-tables", "hidden"])
    sync.run()
    assert sync.tables() == ["orders"]
    server.db.later.insert_many([{"_id": i} for i in range(3)])
    server.db.later.delete_one({"_id": 1})
    server.db.empty.insert_one({"_id": "first"})
    server.db.hidden.insert_one({"_id": "before the rename"})
    server.db.hidden.rename("shown")
    sync.run()
    assert sync.tables() == ["empty", "later", "orders", "shown"]
    assert set(sync.rows("later")) == {"0", "2"}
    assert set(sync.rows("shown")) == {"before the rename"}


def test_renamed_collection_replaces_one_with_unread_changes(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.orders.insert_many([{"_id": 1, "a": "old"}, {"_id": 2, "a": "old"}])
    sync = MongoSync(server, tmp_path, flags=["--excluding-tables", "made"])
    sync.run()
    server.db.made.insert_many([{"_id": 1, "a": "new"}, {"_id": 2, "a": "new"}])
    server.db.orders.replace_one({"_id": 1}, {"a": "replaced"})
    server.db.orders.delete_one({"_id": 2})
    server.db.made.rename("orders", dropTarget=True)
    sync.run()
    assert {key: row["a"] for key, row in sync.rows("orders").items()} == {"1": "new", "2": "new"}


@pytest.mark.parametrize("table", ["t", None])
def test_documents_changed_under_another_name_are_read_when_the_name_returns(
    server: MongoPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str | None
) -> None:
    # MongoDB keeps the identity of a renamed collection, the stand-in does not.
    found = collections._collection
    monkeypatch.setattr(collections, "_collection", lambda *given: replace(found(*given), identity="one"))
    server.db.t.insert_many([{"_id": 1, "a": "old"}, {"_id": 2, "a": "old"}])
    sync = MongoSync(server, tmp_path, table, flags=[] if table else ["--excluding-tables", "other"])
    sync.run()
    server.db.t.rename("other")
    server.db.other.update_one({"_id": 1}, {"$set": {"a": "new"}})
    server.db.other.insert_one({"_id": 3, "a": "new"})
    server.db.other.rename("t")
    server.db.t.update_one({"_id": 2}, {"$set": {"a": "newer"}})
    sync.run()
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {"1": "new", "2": "newer", "3": "new"}


def test_renamed_collection_is_not_read_by_a_pipeline_of_changes(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1, "a": "old"})
    sync = MongoSync(server, tmp_path, "t", ["scan.startup.mode=latest-offset"])
    sync.run()
    server.db.t.insert_one({"_id": 2, "a": "new"})
    server.db.t.rename("other")
    server.db.other.rename("t")
    sync.run()
    assert set(sync.rows("t")) == {"2"}


def test_documents_deleted_while_a_collection_is_excluded_leave_its_table(
    server: MongoPlayground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("t", "u", "v"):
        server.db[name].insert_many([{"_id": 1}, {"_id": 2}])
    sync = MongoSync(server, tmp_path)
    sync.run()
    excluding = MongoSync(server, tmp_path, flags=["--excluding-tables", "t|u|v"])
    excluding.run()
    server.db.t.delete_many({})
    server.db.u.delete_one({"_id": 1})
    server.db.v.drop()
    excluding.run()
    assert main(["check", "mongodb-sync-database", *sync.words]) == 0
    assert "ods.t" in capsys.readouterr().out
    sync.run()
    # A drop yields no rows, and the rows of its table stay.
    assert {name: set(sync.rows(name)) for name in ("t", "u", "v")} == {"t": set(), "u": {"2"}, "v": {"1", "2"}}
    server.db.t.insert_one({"_id": 3})
    sync.run()
    assert set(sync.rows("t")) == {"3"}


def test_a_collection_that_is_created_after_it_was_excluded_has_only_its_own_documents(
    server: MongoPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t", "u"):
        server.db[name].insert_many([{"_id": 1}, {"_id": 2}])
    sync, available = MongoSync(server, tmp_path), MongoSource.available
    sync.run()
    excluding = MongoSync(server, tmp_path, flags=["--excluding-tables", "t"])
    excluding.run()
    server.db.t.delete_one({"_id": 1})
    server.db.t.drop()
    excluding.run()

    def created(self: MongoSource) -> Offsets:
        """The collections are known by now: the run begins."""
        server.db.t.insert_one({"_id": 7})
        server.db.u.drop()
        monkeypatch.undo()
        return available(self)

    monkeypatch.setattr(MongoSource, "available", created)
    for _ in range(2):
        sync.run()
        assert (set(sync.rows("t")), set(sync.rows("u"))) == ({"7"}, {"1", "2"})


def test_dropped_database_does_not_end_the_pipeline(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1})
    sync = MongoSync(server, tmp_path, "t")
    sync.run()
    server.client.drop_database(server.db.name)
    server.db.t.insert_one({"_id": 2})
    sync.run()
    server.db.t.insert_one({"_id": 3})
    sync.run()
    # A drop yields no rows: what was there before stays.
    assert set(sync.rows()) == {"1", "2", "3"}


def test_several_databases_are_read_as_one_stream(server: MongoPlayground, tmp_path: Path) -> None:
    one, two = server.client["play_1"], server.client["play_2"]
    one.t.insert_one({"_id": 1})
    two.t.insert_one({"_id": 2})
    sync = MongoSync(server, tmp_path, database="play_[0-9]")
    sync.run()
    one.t.insert_one({"_id": 3})
    two.t.delete_one({"_id": 2})
    server.client["play"].t.insert_one({"_id": 4})
    sync.run()
    assert set(sync.rows("t")) == {"1", "3"}


def test_specified_columns_come_from_their_paths(server: MongoPlayground, tmp_path: Path) -> None:
    conf = ["schema.start.mode=specified", "field.name=_id,city,first", "parser.path=$._id,$.address.city,$.tags[0]"]
    server.db.t.create_index("city")
    sync = MongoSync(server, tmp_path, "t", conf)
    sync.run()  # without any document
    server.db.t.insert_many(
        [{"_id": 1, "address": {"city": "Rome"}, "tags": ["a", "b"], "other": 1}, {"_id": 2, "address": 5, "tags": []}]
    )
    sync.run()
    assert sync.rows() == {
        "1": {"_id": "1", "city": "Rome", "first": "a"},
        "2": {"_id": "2", "city": None, "first": None},
    }


def test_computed_columns_and_keys_as_extended_json(server: MongoPlayground, tmp_path: Path) -> None:
    key = ObjectId()
    server.db.t.insert_one({"_id": key, "at": "2026-03-04 10:00:00"})
    flags = ["--computed-column", "day=date_format(at,yyyy-MM-dd)"]
    sync = MongoSync(server, tmp_path, "t", ["default.id.generation=false"], flags)
    sync.run()
    row = sync.rows()[f'{{"$oid":"{key}"}}']
    assert row["day"] == "2026-03-04"


def test_empty_and_missing_collections_are_refused(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.create_collection("t")
    with pytest.raises(EmptyCollection, match="No documents in collection to infer schema"):
        MongoSync(server, tmp_path, "t").run()
    with pytest.raises(ConfigError, match="no collection of the server is selected"):
        MongoSync(server, tmp_path, "missing").run()


def test_targets_that_show_a_repeated_change_are_refused(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1})
    sync = MongoSync(server, tmp_path, "t", flags=["--table-conf", "changelog-producer=input"])
    with pytest.raises(SourceError, match="changes that are applied twice"):
        sync.run()


def test_document_that_does_not_fit_is_a_dead_letter_that_can_be_replayed(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.t.insert_many([{"_id": 1, "year": "2024"}, {"_id": 2, "year": "none", "more": [1, None]}])
    sync = MongoSync(server, tmp_path, "t", flags=["--on-bad-record", "dead-letter"])
    strict = TransformConfig(source_table="play.t", projection="*, cast(year as int) as number")
    strict_spec = sync.spec.model_copy(update={"transform": (strict,)})
    run(strict_spec)
    server.db.t.insert_one({"_id": 3, "year": "lost"})
    run(strict_spec)
    assert {key: row["number"] for key, row in sync.rows().items()} == {"1": 2024}
    kept = sync.target("__penstock_dead_letters")
    letters = letters_of(kept.scan().to_arrow())
    assert len(letters) == 2
    done = replay(sync.spec, letters, kept)
    assert done.rows == {"ods.t": 2}
    rows = sync.rows()
    assert (rows["2"]["year"], rows["2"]["more"], rows["3"]["year"]) == ("none", "[1,null]", "lost")


def test_signal_and_reset_read_a_collection_again(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1})
    sync = MongoSync(server, tmp_path, flags=["--name", "again"])
    sync.run()
    # Rows that the pipeline does not know of: reading again keeps them, and a reset removes them.
    with sync.target("t").writer(commit_user="other") as writer:
        writer.write(pa.table({"_id": ["1", "stray"]}), kinds=[3, 0])
        writer.commit(identifier=1)
    CheckpointFolder(f"{tmp_path}/checkpoint").signal(f"{SNAPSHOT_REQUEST}1.json", ["t"])
    sync.run()
    assert set(sync.rows("t")) == {"1", "stray"}
    sync.flags = [*sync.flags, "--reset", "t"]
    sync.run()
    assert set(sync.rows("t")) == {"1"}


def test_lost_history_is_an_error_and_reading_again_repairs_it(tmp_path: Path) -> None:
    with (
        running("mongodb", tmp_path / "server", "--oplog-max-entries", "50") as port,
        MongoPlayground.at(f"mongodb://127.0.0.1:{port}/") as server,
    ):
        server.db.t.insert_one({"_id": "first"})
        sync = MongoSync(server, tmp_path, "t")
        sync.run()
        # The stand-in removes old entries at every thousandth one.
        server.db.t.insert_many([{"_id": number} for number in range(1200)])
        server.db.t.delete_one({"_id": "first"})
        with pytest.raises(OplogLost) as caught:
            sync.run()
        assert "--resnapshot" in str(caught.value)
        sync.flags = ["--resnapshot"]
        sync.run()
        assert set(sync.rows()) == {str(number) for number in range(1200)}


def test_a_planned_batch_whose_history_is_lost_lets_the_collections_be_read_again(tmp_path: Path) -> None:
    with (
        running("mongodb", tmp_path / "server", "--oplog-max-entries", "50") as port,
        MongoPlayground.at(f"mongodb://127.0.0.1:{port}/") as server,
    ):
        server.db.t.insert_many([{"_id": "first"}, {"_id": "second"}])
        sync = MongoSync(server, tmp_path, "t")
        sync.run()
        server.db.t.delete_one({"_id": "first"})
        with pytest.raises(ZeroDivisionError):
            sync.run(lambda *_: 1 // 0)  # the batch is planned, and not read
        server.db.other.insert_many([{"_id": number} for number in range(1200)])
        with pytest.raises(OplogLost):
            sync.run()
        spec = sync.spec
        run(spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})}))
        assert set(sync.rows()) == {"second"}


def test_the_stream_is_opened_to_find_lost_history_if_the_oplog_may_not_be_read(
    server: MongoPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in refuses no stream whose begin is gone: the answer of a real server is in the unit tests."""
    asked: list[LogPart] = []
    monkeypatch.setattr(checks, "oldest_time", lambda _: None)

    def noted(connection: MongoConnection, part: LogPart) -> None:
        require_stream(connection, part)
        asked.append(part)

    monkeypatch.setattr(planner, "require_stream", noted)
    monkeypatch.setattr(planner, "_SURELY_KEPT", -1)
    server.db.t.insert_one({"_id": "first"})
    sync = MongoSync(server, tmp_path, "t")
    spec = sync.spec
    spec = spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})})
    run(spec)
    server.db.t.insert_one({"_id": "second"})
    run(spec)
    assert set(sync.rows()) == {"first", "second"}
    assert asked
