"""Options that no change, and no single read or write, may give another value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.schema.changes import ResetOption, SetOption, apply_changes
from penstock.table.schema.new_schema import create_schema
from tests.unit.table.tables import content, new_table

BASE = create_schema([("k", "INT"), ("v", "INT")], ["k"], [], {"bucket": "2"}, now=1)


@pytest.mark.parametrize("change", [SetOption("path", "/elsewhere"), ResetOption("path")])
def test_the_folder_of_a_table_cannot_change(change: SetOption | ResetOption) -> None:
    with pytest.raises(ConfigError, match="folder of a table cannot change"):
        apply_changes(BASE, [change], has_snapshots=False, now=9)


def test_resetting_a_name_that_is_no_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'snapshot.time-retain' is not a table option") as refused:
        apply_changes(BASE, [ResetOption("snapshot.time-retain")], has_snapshots=True, now=9)
    assert refused.value.hint == "did you mean snapshot.time-retained?"
    assert apply_changes(BASE, [ResetOption("snapshot.time-retained")], has_snapshots=True, now=9).options == {
        "bucket": "2"
    }


def test_resetting_a_name_that_is_no_option_changes_nothing_if_it_need_not_exist() -> None:
    changes = [ResetOption("snapshot.time-retain", if_exists=True), ResetOption("bucket", if_exists=True)]
    assert apply_changes(BASE, changes, has_snapshots=False, now=9).options == {}


def test_one_read_or_write_cannot_interpret_rows_by_another_rule(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer() as writer:
        writer.write(pa.table({"id": [1, 1], "name": ["a", "b"]}))
        writer.commit()
    for options in (
        {"merge-engine": "first-row"},
        {"bucket": "4"},
        {"bucket-key": "name"},
        {"primary-key": "name"},
        {"ignore-delete": "true"},
        {"path": "/elsewhere"},
    ):
        for use in (table.scan, table.writer, table.overwrite, table.compact):
            with pytest.raises(ConfigError, match="cannot be set for one read or write"):
                use(options=options)
    same = {"merge-engine": "deduplicate", "bucket": "2", "primary-key": "id", "ignore-delete": "false"}
    assert table.scan(options=same).to_arrow()["name"].to_pylist() == ["b"]
    table.compact(options={"target-file-size": "1 mb"})
    assert content(table) == [(1, "b", None)]
