"""Reads of older states of a table in the middle of a story, by the options that users set for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.table.handle import Table
from tests.golden.relations import difference
from tests.simulation.story import Step
from tests.stories.remembered_reads import RememberedReads
from tests.stories.shelf import Line


@dataclass(frozen=True, slots=True)
class OlderReads:
    """Reads of main, compared with the rows that the model had."""

    table: Table
    line: Line
    reads: RememberedReads

    def check(self, step: Step) -> str | None:
        """Read as the step says. Return what is wrong; None if it is right, or the table has nothing to read yet."""
        known = self._known()
        if not known:
            return None
        chosen = known[step["which"] % len(known)]
        if step["op"] == "travel":
            return self._travel(step["options"][0], chosen, step["which"])
        return self._between(chosen, known[step["until"] % len(known)])

    def _known(self) -> list[int]:
        """Return the snapshots whose rows are known, and that no interrupted expiry has left over."""
        first = self.table.store.snapshots.earliest_id() or 0
        return [made.id for made in self.table.snapshots if made.id >= first and made.id in self.line.visible]

    def _travel(self, option: str, chosen: int, which: int) -> str | None:
        expected, value = self.line.visible[chosen], str(chosen)
        match option:
            case "scan.timestamp-millis":
                time = next(made.time_millis for made in self.table.snapshots if made.id == chosen)
                # Of several snapshots of one millisecond, the last one is read.
                last = max(made.id for made in self.table.snapshots if made.time_millis <= time)
                if last not in self.line.visible:
                    return None
                expected, value = self.line.visible[last], str(time)
            case "scan.tag-name":
                names = sorted(self.line.tagged_rows)
                if not names:
                    return None
                value = names[which % len(names)]
                expected = self.line.tagged_rows[value]
        wrong = difference(expected, self.reads.of_scan(self.table.scan(options={option: value})))
        return wrong and f"read with {option} = {value}: {wrong}"

    def _between(self, start: int, end: int) -> str | None:
        """Compare the difference of two snapshots: the rows of the later one that the earlier one does not have."""
        start, end = min(start, end), max(start, end)
        before, after = self.line.visible[start], self.line.visible[end]
        if start == end or not before.columns == after.columns == tuple(self.line.now.names):
            return None
        if before.types != after.types or after.unordered:  # then arrays of equal elements may count as different
            return None
        expected = replace(after, rows=[row for row in after.rows if row not in before.rows])
        options = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": "diff"}
        try:
            found = self.table.scan(options=options).to_arrow()
        except ConfigError as refused:
            if "different numbers of buckets" not in str(refused):  # the table was rescaled between the two
                raise
            return None
        wrong = difference(expected, found.drop_columns("rowkind"))
        return wrong and f"difference of snapshots {start} and {end}: {wrong}"
