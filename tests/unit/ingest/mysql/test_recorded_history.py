"""The definitions of tables that plans find, in the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.mysql.ddl.history import DefinitionVersion
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.storage.state_folder import StateFolder


def test_definitions_of_two_drivers_that_plan_from_one_start_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DefinitionStore(StateFolder(str(tmp_path)))
    more, fewer = (DefinitionVersion(("shop", name), "binlog.000001", 4, None) for name in ("b", "a"))
    store.add("server", [fewer, more], "start")
    monkeypatch.setattr(DefinitionStore, "_files", lambda _: [])  # as the other driver saw the folder before
    store.add("server", [fewer], "start")
    monkeypatch.undo()
    assert [record.version.name[1] for record in store.records()] == ["a", "b", "a"]
