"""Random histories of a table, with dicts of the expected rows.

A history has writes, tags, branches, rollbacks, fast-forwards and expiry.

    History(seed).run(steps=12)      # the same seed produces the same history

After each step every snapshot and tag of every branch must have all its files, and the newest rows must be the model's,
both for a handle opened long ago and for a new one. At the end every snapshot and tag is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.storage.environment import Environment, seeded
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.clone import copy_table
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.path_tables import create_table_at
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.entry_cache import EntryCache
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import OwnProcess
from penstock.table.schema.changes import AddColumn, evolve
from penstock.table.usable import check_usable
from penstock.table.values.types import parse_type
from tests.invariants.metadata import change_files, state_files
from tests.orphans import remove_orphans
from tests.simulation.store import Disk, SimStore

ROOT = "/w/d.db/t"
FAR = 1 << 60
Rows = dict[int, int]
OPTIONS = [
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "full-compaction"},
    {"bucket": "1"},
    {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.max": "20",
        "changelog.num-retained.min": "9",
    },
    {"bucket": "1", "changelog.num-retained.max": "20", "changelog.num-retained.min": "9"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    {"bucket": "1", "deletion-vectors.enabled": "true"},
]


@dataclass(frozen=True, eq=False)
class State:
    """Expected rows.

    `rows` are visible to readers; with deletion vectors `written` rows wait for the compaction that follows.
    """

    rows: Rows = field(default_factory=dict)
    written: Rows = field(default_factory=dict)


@dataclass
class Line:
    """The expected content of one branch: the state of each snapshot and of each tag."""

    snapshots: dict[int, State] = field(default_factory=dict)
    tags: dict[str, tuple[int, State]] = field(default_factory=dict)

    @property
    def newest(self) -> State:
        return self.snapshots[max(self.snapshots)] if self.snapshots else State()

    def states(self) -> dict[int, State]:
        return {**dict(self.tags.values()), **self.snapshots}


class History:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk, self.lines, self.told = Disk(), {"main": Line()}, [f"seed {seed}"]
        self.options = self.random.choice(OPTIONS)
        self._count, self._cache = 0, EntryCache()
        self._create()
        self.held = self.table("main")

    def run(self, steps: int) -> History:
        verbs: list[Callable[[], str | None]] = [
            *[self.write] * 6,
            *[self.tag] * 3,
            *[self.branch] * 2,
            *[self.fast_forward] * 2,
            *[self.roll_back] * 2,
            *[self.expire] * 3,
            self.untag,
            self.unbranch,
            self.sweep,
            self.copy,
            self.alter,
            self.make_anew,
            self.hold,
        ]
        while len(self.told) <= steps:
            done = self.random.choice(verbs)()
            if done is not None:
                self.told.append(done)
                self.check()
        for name in list(self.lines):
            self._expire(name, 1)
        self.sweep()
        self.check(everything=True)
        return self

    # the table

    def store(self, branch: str = "main") -> TableStore:
        store = TableStore.open(SimStore(self.disk), ROOT, None if branch == "main" else branch, self._ambient())
        return TableStore(store.storage, store.paths, store.schemas, store.snapshots, store.ambient, self._cache)

    def table(self, branch: str) -> Table:
        return Table(self.store(branch))

    def _ambient(self) -> Environment:
        self._count += 1
        return seeded(self._count, start_millis=self.disk.clock())

    def _create(self) -> None:
        columns = [("k", parse_type("INT NOT NULL")), ("v", parse_type("INT"))]
        create_table_at(SimStore(self.disk), ROOT, columns, ["k"], [], self.options, None, self._ambient())

    # the operations: each returns what it did, or None if there was nothing to apply it to

    def write(self) -> str:
        name = self.random.choice(list(self.lines))
        rows = {self.random.randrange(8): self.random.randrange(1000) for _ in range(self.random.randint(1, 3))}
        line, table = self.lines[name], self.table(name)
        with table.writer() as writer:
            writer.write(pa.table({"k": pa.array(rows, pa.int32()), "v": pa.array(rows.values(), pa.int32())}))
            made = writer.commit()
        before, after = line.newest, {**line.newest.written, **rows}
        # With deletion vectors readers pass over level 0, so the rows are visible in the snapshot of the
        # compaction.
        hidden = "deletion-vectors.enabled" in self.options
        for snapshot in made[:-1]:
            line.snapshots[snapshot.id] = State(before.rows if hidden else after, after)
        line.snapshots[made[-1].id] = State(after, after)
        return f"write {name} {rows} as {[snapshot.id for snapshot in made]}"

    def tag(self) -> str | None:
        name = self.random.choice(list(self.lines))
        line, tag = self.lines[name], f"t{self._count}"
        if not line.snapshots:
            return None
        snapshot = self.random.choice(list(line.snapshots))
        self.table(name).create_tag(tag, snapshot)
        line.tags[tag] = snapshot, line.snapshots[snapshot]
        return f"tag {name} {tag}={snapshot}"

    def branch(self) -> str | None:
        main, name = self.lines["main"], f"b{self._count}"
        if not main.tags or len(self.lines) > 2:
            return None
        tag = self.random.choice(list(main.tags))
        self.table("main").create_branch(name, tag)
        snapshot, state = main.tags[tag]
        self.lines[name] = Line({snapshot: state}, {tag: (snapshot, state)})
        return f"branch {name} from {tag}={snapshot}"

    def fast_forward(self) -> str | None:
        name = self._some_branch()
        if name is None:
            return None
        main, branch = self.lines["main"], self.lines[name]
        try:
            self.table("main").fast_forward(name)
        except ConfigError as refused:
            unknown, expired = "the start of the branch is unknown", "the first snapshots of the branch have expired"
            if unknown not in str(refused) and expired not in str(refused):
                raise
            return None
        # The last snapshot that both have: states are compared by identity, because two states may have the same
        # rows.
        shared = max((n for n, state in main.states().items() if branch.states().get(n) is state), default=0)
        kept = {n: state for n, state in main.snapshots.items() if n <= shared}
        if not kept or max(kept) + 1 < min(branch.snapshots):
            kept = {}
        self.lines["main"] = Line(
            {**kept, **branch.snapshots},
            {**{tag: item for tag, item in main.tags.items() if item[0] <= shared}, **branch.tags},
        )
        return f"fast-forward {name}"

    def roll_back(self) -> str | None:
        name = self.random.choice(list(self.lines))
        line = self.lines[name]
        if not line.snapshots:
            return None
        by_tag = bool(line.tags) and self.random.random() < 0.5
        target = self.random.choice(list(line.tags) if by_tag else list(line.snapshots))
        snapshot = line.tags[target][0] if isinstance(target, str) else target
        state = line.states()[snapshot]
        self.table(name).rollback_to(target)
        line.snapshots = {n: item for n, item in line.snapshots.items() if n <= snapshot} | {snapshot: state}
        line.tags = {tag: item for tag, item in line.tags.items() if item[0] <= snapshot}
        return f"rollback {name} to {target}={snapshot}"

    def expire(self) -> str:
        name, keep = self.random.choice(list(self.lines)), self.random.randint(1, 3)
        self._expire(name, keep)
        return f"expire {name} to {keep}"

    def _expire(self, name: str, keep: int) -> None:
        store, line = self.store(name), self.lines[name]
        # Without protection of users: otherwise the newest snapshot of each commit user is kept for a week.
        expire_snapshots(store, retain_max=keep, retain_min=keep, older_than=self.disk.clock(), protect_users=0)
        line.snapshots = dict(sorted(line.snapshots.items())[-keep:])

    def untag(self) -> str | None:
        name = self.random.choice(list(self.lines))
        if not self.lines[name].tags:
            return None
        tag = self.random.choice(list(self.lines[name].tags))
        self.table(name).delete_tag(tag)
        del self.lines[name].tags[tag]
        return f"delete tag {name} {tag}"

    def unbranch(self) -> str | None:
        name = self._some_branch()
        if name is None:
            return None
        self.table("main").delete_branch(name)
        del self.lines[name]
        return f"delete branch {name}"

    def _some_branch(self) -> str | None:
        return self.random.choice([name for name in self.lines if name != "main"] or [None])  # type: ignore[list-item]

    def sweep(self) -> str:
        remove_orphans(self.store(), FAR, OwnProcess())
        return "remove orphans"

    def copy(self) -> str:
        ambient = self._ambient()
        catalog = Catalog("/w", ambient=ambient, backend=FileCatalog(SimStore(self.disk), "/w", ambient))
        copied = copy_table(self.table("main"), catalog, f"d.c{self._count}", OwnProcess())
        if self.lines["main"].snapshots:
            with copied.writer() as writer:
                writer.write(pa.table({"k": pa.array([99], pa.int32()), "v": pa.array([0], pa.int32())}))
                writer.commit()
            expire_snapshots(copied.store, retain_max=1, retain_min=1, older_than=self.disk.clock(), protect_users=0)
            remove_orphans(copied.store, FAR, OwnProcess())
            assert rows_of(copied) == {**self.lines["main"].newest.written, 99: 0}, self.told
        SimStore(self.disk).delete_tree(copied.path)
        return "copy"

    def alter(self) -> str:
        name = self.random.choice(list(self.lines))
        store = self.store(name)
        evolve(store.schemas, [AddColumn(f"c{self._count}", "INT")], True, store.ambient.now_millis(), check_usable)
        return f"alter {name}"

    def make_anew(self) -> str | None:
        if self.random.random() < 0.7:
            return None
        SimStore(self.disk).delete_tree(ROOT)
        self.options, self.lines = self.random.choice(OPTIONS), {"main": Line()}
        self._create()
        return f"dropped and created again with {self.options}"

    def hold(self) -> None:
        self.held = self.table("main")

    # checks

    def check(self, *, everything: bool = False) -> None:
        for name, line in self.lines.items():
            table = self.table(name)
            ids = table.store.snapshots.ids()
            assert ids == sorted(line.snapshots), (name, ids, sorted(line.snapshots), self.told)
            assert ids == list(range(ids[0], ids[-1] + 1)) if ids else True, (ids, self.told)
            assert table.tags == {tag: item[0] for tag, item in line.tags.items()}, (name, self.told)
            self._check_files(table)
            assert rows_of(table) == line.newest.rows, (name, self.told)
            for snapshot, state in line.snapshots.items() if everything else ():
                assert rows_of(table, snapshot=snapshot) == state.rows, (name, snapshot, self.told)
            for tag, (_, state) in line.tags.items() if everything else ():
                assert rows_of(table, tag=tag) == state.rows, (name, tag, self.told)
        held = self.held.scan().to_arrow()
        assert held.schema.names == list(self.table("main").schema.names), self.told
        assert rows_of(self.held) == self.lines["main"].newest.rows, self.told

    def _check_files(self, table: Table) -> None:
        store = table.store
        tags = tag_files(store).all()
        named = [(f"tag {tag.name}", state_files(store, tag.snapshot)) for tag in tags]
        for snapshot in table.snapshots:
            named.append((f"snapshot {snapshot.id}", state_files(store, snapshot)))
            named.append((f"changelog {snapshot.id}", change_files(store, snapshot)))
        for reached, files in named:
            missing = [path for path, _ in files if path not in self.disk.files]
            assert not missing, (table.name, reached, missing, self.told)


def rows_of(table: Table, **at: object) -> Rows:
    found = table.scan(["k", "v"], **at).to_arrow()  # type: ignore[arg-type]
    rows = dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows, "a key is there twice"
    return rows
