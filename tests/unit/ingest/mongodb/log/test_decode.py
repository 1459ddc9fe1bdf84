"""Events as changes: kinds, order, images, and what yields no rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest
from bson import Timestamp

from penstock.formats.change import ChangeBatch, DecodeOptions, ImageRule
from penstock.ingest.database.unordered_deletes import UNORDERED_DELETE
from penstock.ingest.mongodb.errors import PostImageMissing
from penstock.ingest.mongodb.log.decode import GONE, EventDecoder
from penstock.ingest.mongodb.log.events import Events
from penstock.ingest.mongodb.rows import ColumnChoice, DocumentRows
from penstock.row_kinds import KIND_TEXTS
from tests.unit.ingest.mongodb.bson.test_elements import laid_out


def event(operation: str, key: object = None, second: int = 1, coll: str = "t", **more: Any) -> dict[str, Any]:
    made = {"_id": {"_data": "36"}, "operationType": operation, "clusterTime": Timestamp(second, 1)}
    name = {"ns": {"db": "d", "coll": coll} if coll else {"db": "d"}}
    return made | name | ({"documentKey": {"_id": key}} if key is not None else {}) | more


def insert(key: object, **more: Any) -> dict[str, Any]:
    return event("insert", key, fullDocument={"_id": key, **more})


def update(key: object, before: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    old = {"fullDocumentBeforeChange": {"_id": key, **before}} if before is not None else {}
    return event("update", key, fullDocument={"_id": key, **more}, **old)


class Decoded:
    def __init__(self, *events: dict[str, Any], rule: ImageRule | None = None, has_before: bool = False) -> None:
        self.oddities: Counter[str] = Counter()
        options = DecodeOptions(tables={("d", "t"): rule or ImageRule("key-changes", frozenset({"_id"}))})
        rows = DocumentRows(ColumnChoice(), self.oddities)
        decoder = EventDecoder(lambda _, name: name != "other", rows, options, has_before, self.oddities)
        block, at = laid_out(*events)
        self.batches = decoder.decode(Events.of(block, at))

    def rows(self, table: str = "t") -> list[tuple[str, dict[str, Any]]]:
        (one,) = [one for one in self.batches if one.schema.table == table]
        return [(KIND_TEXTS[kind], row) for kind, row in zip(one.kinds, one.rows.to_pylist(), strict=True)]


def test_operations_become_rows_in_their_order() -> None:
    found = Decoded(insert(1, a="x"), event("delete", 1), insert(2, a="y"), update(2, a="z", b=1), insert(1, a="again"))
    assert found.rows() == [
        ("+I", {"_id": "1", "a": "x", "b": None}),
        ("-D", {"_id": "1", "a": None, "b": None}),
        ("+I", {"_id": "2", "a": "y", "b": None}),
        ("+U", {"_id": "2", "a": "z", "b": "1"}),
        ("+I", {"_id": "1", "a": "again", "b": None}),
    ]


def test_rows_of_collections_are_apart_and_keep_their_numbers() -> None:
    found = Decoded(insert(1), event("insert", 2, coll="u", fullDocument={"_id": 2}), insert(3))
    positions = {batch.schema.table: batch.positions.tolist() for batch in found.batches}
    assert positions == {"t": [0, 2], "u": [1]}


def test_collections_that_are_not_captured_yield_nothing() -> None:
    assert Decoded(event("insert", 1, coll="other", fullDocument={"_id": 1})).batches == []


def test_update_of_a_deleted_document_is_skipped_and_counted() -> None:
    found = Decoded(event("update", 1, fullDocument=None), event("delete", 1))
    assert found.rows() == [("-D", {"_id": "1"})]
    assert found.oddities[GONE] == 1


def test_names_that_collections_got_are_those_of_renames_before_the_end() -> None:
    away, back = {"db": "d", "coll": "u"}, {"db": "d", "coll": "t"}
    block, at = laid_out(
        event("rename", to=away), insert(1), event("rename", coll="u", to=back), event("rename", second=9, to=away)
    )
    found = Events.of(block, at)
    assert found.new_names() == {("d", "t"), ("d", "u")}
    assert found.before_time(5 << 32).new_names() == {("d", "t"), ("d", "u")}
    assert Events.of(block, at[1:]).before_time(5 << 32).new_names() == {("d", "t")}
    assert Events.of(block, at[1:2]).new_names() == set()


def test_drops_and_renames_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    found = Decoded(event("drop"), event("rename"), event("dropDatabase", coll=""), event("drop", coll="other"))
    assert found.batches == []
    assert +found.oddities == {"drop": 1, "rename": 1, "dropDatabase": 1}
    assert "event=drop_not_followed collection=d.t" in caplog.text


def test_old_documents_are_rows_where_the_target_needs_them() -> None:
    rule = ImageRule("all", frozenset({"_id"}))
    removed = event("delete", 1, fullDocumentBeforeChange={"_id": 1, "a": "y"})
    found = Decoded(update(1, {"a": "x"}, a="y"), removed, rule=rule, has_before=True)
    assert [(kind, row["a"]) for kind, row in found.rows()] == [("-U", "x"), ("+U", "y"), ("-D", "y")]


def test_row_that_may_move_is_deleted_at_its_old_place() -> None:
    rule = ImageRule("key-changes", frozenset({"_id", "_ID", "a"}))
    found = Decoded(update(1, {"a": "x"}, a="y"), rule=rule, has_before=True)
    assert [(kind, row["a"]) for kind, row in found.rows()] == [("-D", "x"), ("+I", "y")]


def test_missing_old_documents_are_an_error() -> None:
    with pytest.raises(PostImageMissing, match="lack the old document") as caught:
        Decoded(update(1, a="y"), rule=ImageRule("all"))
    assert "collMod" in (caught.value.hint or "")


def test_delete_has_the_columns_that_order_the_rows_of_a_key(caplog: pytest.LogCaptureFixture) -> None:
    rule = ImageRule("key-changes", frozenset({"_id"}), frozenset({"A"}))
    removed = event("delete", 1, fullDocumentBeforeChange={"_id": 1, "a": "y"})
    found = Decoded(update(1, {"a": "x"}, a="y"), removed, rule=rule, has_before=True)
    assert [(kind, row["a"]) for kind, row in found.rows()] == [("+U", "y"), ("-D", "y")]
    assert Decoded(update(1, a="y"), rule=rule).rows() == [("+U", {"_id": "1", "a": "y"})]
    lacking = Decoded(event("delete", 1), event("delete", 2), rule=rule)
    assert [kind for kind, _ in lacking.rows()] == ["-D", "-D"]
    assert +lacking.oddities == {UNORDERED_DELETE: 2}
    assert "event=deletes_without_effect table=d.t deletes=2 missing=A" in caplog.text


@pytest.mark.parametrize("keeps", [False, True])
def test_a_delete_has_its_old_values_only_where_the_row_stays_with_a_mark(*, keeps: bool) -> None:
    """Elsewhere a row must be deleted although a value of the old document does not fit its column."""
    rule = ImageRule("key-changes", frozenset({"_id"}), keeps_deleted=keeps)
    removed = event("delete", 1, fullDocumentBeforeChange={"_id": 1, "a": "y"})
    assert Decoded(removed, rule=rule, has_before=True).rows() == [("-D", {"_id": "1"} | ({"a": "y"} if keeps else {}))]
    assert Decoded(event("delete", 1), rule=rule, has_before=True).rows() == [("-D", {"_id": "1"})]


def test_times_are_those_of_the_server() -> None:
    moment = dt.datetime(2026, 1, 1, 0, 0, 0, 5000)
    found: list[ChangeBatch] = Decoded(insert(1) | {"wallTime": moment}, insert(2)).batches
    assert found[0].event_times.tolist() == [1_767_225_600_005, 1000]
