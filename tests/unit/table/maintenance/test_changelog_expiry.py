"""The expiry of changelogs that outlived their snapshots, where their ids have a gap or a consumer reads them."""

from __future__ import annotations

from pathlib import Path

from tests.unit.table.maintenance.tables import LATE, write
from tests.unit.table.tables import new_table


def test_files_of_a_tag_before_the_next_snapshot_are_kept(tmp_path: Path) -> None:
    """A fast-forward of an earlier version left such a gap: the files of tags in it were deleted."""
    options = {"changelog.num-retained.min": "20", "changelog.num-retained.max": "20", "write-only": "true"}
    table = new_table(tmp_path, options=options)
    write(table, 1)
    write(table, 2)
    table.create_tag("in the gap")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=LATE)
    folder = table.store.snapshots.changelogs
    assert (folder.numbers(), table.store.snapshots.ids()) == ([1, 2], [3])
    table.store.storage.delete(folder.path(2))
    assert table.expire_changelogs(delete_all=True).changelogs == 1
    assert table.scan(tag="in the gap").to_arrow().num_rows == 2


def test_a_changelog_that_a_consumer_has_yet_to_read_is_kept(tmp_path: Path) -> None:
    options = {"changelog.num-retained.min": "20", "changelog.num-retained.max": "20", "write-only": "true"}
    table = new_table(tmp_path, options=options)
    for number in (1, 2, 3):
        write(table, number)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=LATE)
    folder = table.store.snapshots.changelogs
    for next_snapshot, left in ((2, [2]), (None, [])):
        table.reset_consumer("reader", next_snapshot)
        table.expire_changelogs(retain_max=1, retain_min=1, older_than=LATE)
        assert folder.numbers() == left
