"""The files of a table are read from its manifests: a truncated or missing one is an error, not a smaller table."""

from __future__ import annotations

import pytest

from penstock.errors import TableCorrupt
from penstock.table.meta.live import all_manifests, index_entries, live_entries
from penstock.table.meta.store import TableStore
from tests.unit.table.maintenance.tables import golden, open_table


def cut(store: TableStore, path: str, bytes_left: int) -> TableStore:
    store.storage.write(path, store.storage.read(path)[:bytes_left])
    return open_table(store.storage.disk)  # type: ignore[attr-defined]


def end_of_header(data: bytes) -> int:
    """The first place at which a container could end: after the mark that every block ends with."""
    return data.index(data[-16:]) + 16


def test_a_manifest_cut_between_blocks_is_no_shorter_manifest() -> None:
    store = golden("append_unaware")
    snapshot = store.snapshots.get(3)
    paths = store.paths
    lists = [paths.manifest(snapshot.base_manifest_list), paths.manifest(snapshot.delta_manifest_list)]
    for path in [*lists, *(paths.manifest(manifest.name) for manifest in all_manifests(store, snapshot))]:
        whole = store.storage.read(path)
        damaged = cut(store, path, end_of_header(whole))
        with pytest.raises(TableCorrupt, match="should have") as refused:
            live_entries(damaged, snapshot)
        assert refused.value.facts["file"] == path
        assert refused.value.facts["snapshot"] == 3
        store.storage.write(path, whole)


def test_broken_manifests_are_named_with_table_and_snapshot() -> None:
    store = golden("dv_pk")
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    path = store.paths.manifest(snapshot.index_manifest)
    damaged = cut(store, path, 700)
    with pytest.raises(TableCorrupt) as refused:
        index_entries(damaged, snapshot)
    assert {"file": path, "snapshot": snapshot.id, "table": "golden.t"}.items() <= refused.value.facts.items()
    store.storage.delete(path)
    with pytest.raises(TableCorrupt, match="missing"):
        index_entries(damaged, snapshot)
