"""Reads of main that take the partitions which main does not have from a branch (`scan.fallback-branch`)."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.values.binary_row import decode_row
from tests.golden.relations import difference
from tests.stories.remembered_reads import RememberedReads
from tests.stories.shelf import Line

OPTION = "scan.fallback-branch"


def is_like(main: Line, branch: Line) -> bool:
    """Return whether the branch has the columns of main: otherwise the read is refused."""
    return main.now.columns == branch.now.columns


def check_fallback(table: Table, name: str, main: Line, branch: Line, reads: RememberedReads) -> str | None:
    """Read with the branch as fallback. Return what differs from the rows of the model, or None."""
    store, place = table.store, main.now.names.index("p")
    snapshot = store.snapshots.latest()
    entries = [] if snapshot is None else live_entries(store, snapshot)
    types = [table.definition.field("p").type]
    # Main has a partition as long as it has files of it, also without rows.
    own = {decode_row(entry.partition, types)[0] for entry in entries}
    rows = main.now.relation().rows
    lacking = {row[place] for row in rows} - own
    assert not lacking, f"main has rows of the partitions {lacking}, and no files"
    others = [row for row in branch.now.relation().rows if row[place] not in own]
    wrong = difference(
        replace(main.now.relation(), rows=[*rows, *others]), reads.of_scan(table.scan(options={OPTION: name}))
    )
    return wrong and f"read with the branch {name} for what main does not have: {wrong}"
