"""The tables that a pipeline has filled, by source table. Stored beside the checkpoint and compared at every start.

Spark's offsets record how far the source was read, but nothing about the tables. A table that was dropped, created
again, rolled back or renamed lacks rows that the offsets count as read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.table_marks import REASONS, Condition, Mark, condition_of, is_empty, new_mark
from penstock.pipelines.mapping.target_tables import THREADS
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.snapshot import Snapshot

VERSION = 1

SourceName: TypeAlias = tuple[str, str]  # database and table; empty where the messages do not name them


@dataclass(frozen=True, slots=True)
class Difference:
    """A table that lacks rows of its sources. `may_be_emptied`: copying it again destroys no data of other writers."""

    table: str
    sources: tuple[SourceName, ...]
    reason: str
    may_be_emptied: bool
    was_left_out: bool = False


@dataclass(slots=True)
class FilledTables:
    """The record of filled tables.

    `sources` maps the source tables that were read to their target tables, and `left` the source tables that were
    excluded later, so that their rows were skipped. `is_adopted`: the checkpoint had no such record until now, although
    it had batches; `is_first_unfinished`: none of these batches was finished.

    A source counts as read once a batch is committed that was planned with it. Therefore `expected` sources are added
    with the first batch after `planned`, which is the newest batch planned when the run began.

    `resumed` are tables whose rows an older checkpoint has written. Their sources are unknown to this one, because no
    message of them came since.

    `kind` is the type of the source in this run. `recorded_kind` is the type in the record: None without a record, and
    empty in a record of an older version.
    """

    checkpoint: CheckpointFolder
    warehouse: CatalogSettings
    planned: int = -1
    sources: dict[SourceName, str] = field(default_factory=dict)
    left: dict[SourceName, str] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    expected: dict[SourceName, str] = field(default_factory=dict)
    resumed: set[str] = field(default_factory=set)
    is_adopted: bool = False
    is_first_unfinished: bool = False
    kind: str = ""
    recorded_kind: str | None = None
    confirmed: set[str] = field(default_factory=set)  # as their marks say, by the start of this run or by its commits

    @classmethod
    def of(cls, checkpoint: CheckpointFolder, warehouse: CatalogSettings, kind: str = "") -> FilledTables:
        planned, content = checkpoint.batches.last_planned, checkpoint.filled_tables()
        filled = cls(checkpoint, warehouse, -1 if planned is None else planned, kind=kind)
        if content is None:
            filled.is_adopted = not filled.is_new
            filled.is_first_unfinished = filled.is_adopted and checkpoint.batches.progress().done is None
        else:
            filled._load(content)
        return filled

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with the checkpoint."""
        return self.planned < 0

    @property
    def uncaptured(self) -> dict[str, list[str]]:
        """The target tables that get no rows any more because all of their source tables were excluded, with these."""
        found: dict[str, list[str]] = {}
        for source, target in sorted(self.left.items()):
            found.setdefault(target, []).append(source_text(source))
        kept = set(self.sources.values())
        return {target: names for target, names in found.items() if target not in kept}

    def differences(
        self, now: Mapping[SourceName, str | None], seen_before: Collection[SourceName] = ()
    ) -> list[Difference]:
        """Return the tables that lack rows, given the current target of each source.

        `seen_before`: sources that were read in the past although this record does not list them.
        """
        if self.is_new:
            return []
        wanted: dict[str, list[SourceName]] = {}
        for source, target in now.items():
            if target is not None:
                wanted.setdefault(target, []).append(source)
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda item: self._difference(item[0], item[1], seen_before), wanted.items())
            return [difference for difference in found if difference is not None]

    def _difference(
        self, table: str, sources: list[SourceName], seen_before: Collection[SourceName]
    ) -> Difference | None:
        def differs(reason: str, concerned: Iterable[SourceName], condition: Condition, *, left: bool) -> Difference:
            return Difference(table, tuple(concerned), reason, condition in {"same", "missing", "empty"}, left)

        if self.is_adopted:
            # Without a record, only a table that does not exist certainly lacks rows. A table with rows may have
            # all of them.
            missing = condition_of(self.warehouse, table, None) == "missing"
            return differs(REASONS["missing"], sources, "missing", left=False) if missing else None
        condition = condition_of(self.warehouse, table, self.marks.get(table))
        if condition == "same":
            self.confirmed.add(table)
        left = [
            source
            for source in sources
            if source in self.left or (source not in self.sources and source in seen_before)
        ]
        if left:
            return differs("a source table was left out for a while", left, condition, left=True)
        # Either the table was renamed and has the rows already, or the rows go to another table from now on, which
        # lacks the earlier ones.
        moved = [source for source in sources if self.sources.get(source, table) != table]
        if moved:
            before = self.sources[moved[0]]
            if table not in self.marks and condition_of(self.warehouse, table, self.marks.get(before)) == "same":
                return None  # the same table under another name
            # A table without a mark was never filled by this pipeline. Unless it is empty, its rows belong to other
            # writers and must not be deleted.
            there = condition if table in self.marks else "same" if is_empty(self.warehouse, table) else "another"
            return differs(f"the rows of its source went to {before} so far", moved, there, left=False)
        known = [source for source in sources if source in self.sources]
        return None if condition == "same" or not known else differs(REASONS[condition], known, condition, left=False)

    def lost(self) -> list[Difference]:
        """Return the resumed tables that are not as an older checkpoint has left them."""
        conditions = {table: condition_of(self.warehouse, table, self.marks.get(table)) for table in self.resumed}
        return [
            Difference(table, (), REASONS[condition], may_be_emptied=False)
            for table, condition in sorted(conditions.items())
            if condition != "same"
        ]

    def begin(self, now: Mapping[SourceName, str | None], resumed: Collection[str] = ()) -> None:
        """Begin a run that reads these sources, and continues these tables of an older checkpoint.

        Rows of known sources not among them are skipped from now on, which is recorded before the first batch.
        """
        self.resumed |= set(resumed)
        gone = {source: target for source, target in self.sources.items() if now.get(source, target) is None}
        self.expected = {source: target for source, target in now.items() if target is not None}
        if gone:
            self.left |= gone
            self.sources = {source: target for source, target in self.sources.items() if source not in gone}
            self._save()

    def accept(self, differences: Iterable[Difference]) -> None:
        """Accept these tables as they are. The rows they lack are not reported again."""
        differences = list(differences)
        here = {source: difference.table for difference in differences for source in difference.sources}
        if differences:
            self.resumed -= {difference.table for difference in differences}
            self.sources |= here
            self.left = {source: target for source, target in self.left.items() if source not in here}
            self._renew_marks(set(here.values()))
            self._save()

    def set_back(self, made: Mapping[str, Snapshot], before: Mapping[str, Snapshot | None]) -> list[str]:
        """Return the tables of these new snapshots that were rolled back or created again during the run.

        `before` has this pipeline's last snapshot of an earlier batch in these tables, or None. Tables
        that the start has found to differ, or has not compared, are not returned: the run copies them again, or
        continues with the gap.
        """
        known = made.keys() & self.marks.keys() & self.confirmed
        return sorted(table for table in known if self._was_set_back(table, made[table], before.get(table)))

    def _was_set_back(self, table: str, made: Snapshot, before: Snapshot | None) -> bool:
        mark = self.marks[table]
        if mark.was_set_back(made):
            return True
        # Others may have committed since, so that all ids are used again. A batch that is repeated after a failure is
        # itself the newest one.
        if before is not None and before.commit_identifier < made.commit_identifier:
            return mark.lost_all_after(before)
        return mark.user == made.commit_user and condition_of(self.warehouse, table, mark) != "same"

    def record_batch(
        self,
        number: int,
        sources: Mapping[str, Collection[SourceName]],
        snapshots: Mapping[str, Snapshot],
        set_back: Collection[str] = (),
    ) -> None:
        """Record a committed batch: the snapshots it made, and the sources of its rows.

        Called again, it changes nothing. Tables that were set back keep their marks, by which the next start finds what
        they lack.
        """
        before = (dict(self.sources), dict(self.left), dict(self.marks), set(self.resumed))
        # A batch of this run is recorded even if it has no rows: without a record, the next start would have to accept
        # all tables as they are.
        is_owed = self.recorded_kind is None and number > self.planned
        # Source tables of messages are unknown before their first message, so the tables in the batch are added.
        seen = {source: table for table, found in sources.items() for source in found}
        if number > self.planned:
            self.sources |= self.expected | seen
            self.left = {source: target for source, target in self.left.items() if source not in self.sources}
            unmarked = {table for table in (*sources, *self.resumed) if table not in self.marks}
            self._renew_marks({*self.expected.values(), *unmarked}.difference(set_back))
            self.expected = {}
        else:
            # The batch was planned before this run, so it does not include the sources that were added for this run.
            # Of the sources in the batch, only those are new that the start of the run did not know.
            known = self.sources.keys() | self.left.keys() | self.expected.keys()
            new = {source: table for source, table in seen.items() if source not in known}
            self.sources |= new
            # A known source may have a new table, which this batch is the first to fill.
            self._renew_marks({table for table in sources if table not in self.marks})
        self.resumed -= {*self.sources.values(), *sources}
        for table, snapshot in snapshots.items():
            if table in self.marks and table not in set_back:
                created = self.marks[table].created
                self.marks[table] = Mark(created, snapshot.id, snapshot.commit_user, snapshot.commit_identifier)
                self.confirmed.add(table)
        is_owed |= self.recorded_kind == "" and self.kind != ""
        if is_owed or before != (self.sources, self.left, self.marks, self.resumed):
            self._save()

    def _renew_marks(self, tables: Collection[str]) -> None:
        """Accept tables without a mark, or with an outdated mark, as they are now, and give them new marks."""

        def mark(table: str) -> tuple[str, Mark] | None:
            known = self.marks.get(table)
            # A mark that still fits keeps its snapshot, by which a rollback is noticed at the next start.
            if known is not None and condition_of(self.warehouse, table, known) == "same":
                return table, known
            new = new_mark(self.warehouse, table)
            return None if new is None else (table, new)

        with ThreadPoolExecutor(THREADS) as pool:
            self.marks |= dict(filter(None, pool.map(mark, tables)))

    def _load(self, content: Mapping[str, Any]) -> None:
        self.recorded_kind = str(content.get("kind", ""))
        self.sources = {(database, table): target for database, table, target in content["sources"]}
        self.left = {(database, table): target for database, table, target in content["left_out"]}
        self.marks = {table: Mark(**mark) for table, mark in content["tables"].items()}
        self.resumed = set(content.get("resumed", ()))

    def _save(self) -> None:
        marks = {
            table: {"created": mark.created, "snapshot": mark.snapshot, "user": mark.user, "batch": mark.batch}
            for table, mark in sorted(self.marks.items())
        }
        self.recorded_kind = self.kind or self.recorded_kind or ""
        content = {"version": VERSION, "sources": _rows(self.sources), "left_out": _rows(self.left), "tables": marks}
        if self.recorded_kind:
            content["kind"] = self.recorded_kind
        if self.resumed:
            content["resumed"] = sorted(self.resumed)
        self.checkpoint.put_filled_tables(content)


def _rows(sources: Mapping[SourceName, str]) -> list[list[str]]:
    return [[*source, target] for source, target in sorted(sources.items())]


def source_text(source: SourceName) -> str:
    return ".".join(source)
