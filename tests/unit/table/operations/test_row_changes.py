"""The old values that changes of rows come with."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.table.operations.row_changes import old_values_of_updates

ALL = ["dt", "v", "version"]


@pytest.mark.parametrize(
    ("key", "options", "needed"),
    [
        ("id, dt", {}, []),
        ("id, dt", {"changelog-producer": "lookup"}, []),
        ("id, dt", {"changelog-producer": "input"}, ALL[1:]),
        ("id, dt", {"merge-engine": "partial-update"}, ALL[1:]),
        ("id, dt", {"sequence.field": "version"}, ["version"]),
        ("id", {"bucket": "-1"}, ["dt"]),
        ("", {}, []),
    ],
)
def test_updates_need_old_values_of_some_columns(
    tmp_path: Path, key: str, options: dict[str, str], needed: list[str]
) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    columns = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "STRING"), ("version", "INT")]
    given = {"bucket": "1", **options} if key else options
    table = catalog.create_table("d.t", columns, key.split(", ") if key else [], ["dt"], options=given)
    assert old_values_of_updates(table.definition) == needed
