"""Scenes: a table with some history, actors that work on it concurrently, and the check of the result of every order.

The expected rows of each snapshot are derived from its author: a write counts once, at the position of its snapshot. So
a scene needs no expected result, and any two actors can be combined.
"""

from __future__ import annotations

import copy
import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CommitConflict, StoreError
from penstock.storage.environment import Environment
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.errors import ManifestMissing
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind, Snapshot, parse_snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.types import type_json
from tests.golden.relations import Relation
from tests.golden.rows import arrow_changes
from tests.invariants import check_invariants
from tests.simulation.interleaving import Actor
from tests.simulation.playing import PATH, is_visible
from tests.simulation.store import Disk, Operation, SimStore
from tests.simulation.story import Step, Story
from tests.simulation.tellers import Ours, create_ours

COLUMNS = [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")]
ATTEMPTS = 20

Key = tuple[Any, ...]
Row = Mapping[str, Any]
Rows = dict[Key, Row]


def write(*rows: Sequence[Any], kind: str = "+I", **more: Any) -> Step:
    return {"op": "write", "rows": [[kind, *row] for row in rows], **more}


@dataclass(frozen=True)
class TableKind:
    """How the table of a scene is created. Without `keys`, each row of a scene must have a different `k`."""

    options: Mapping[str, str]
    keys: tuple[str, ...] = ("p", "k")
    partitions: tuple[str, ...] = ("p",)


@dataclass(frozen=True)
class Scene:
    """A scene.

    `actors`: the steps of each actor, committed under its own name or under the name in `users`. `whole`: actors that
    must not be interrupted, because no other process may write beside them.
    """

    before: Sequence[Step]
    actors: Mapping[str, Sequence[Step]]
    users: Mapping[str, str] = field(default_factory=dict)
    whole: Collection[str] = ()

    @property
    def rolls_back(self) -> bool:
        return any(step["op"] == "rollback" for steps in self.actors.values() for step in steps)

    def user(self, actor: str) -> str:
        return self.users.get(actor, actor)

    def told(self) -> dict[tuple[str, int], Step]:
        """Return every write by its commit user and identifier."""
        by_actor = {"before": self.before, **self.actors}
        return {
            (self.user(actor), number): step
            for actor, steps in by_actor.items()
            for number, step in enumerate(steps, 1)
            if step["op"] == "write"
        }

    def other(self, *ops: str) -> Step:
        """Return the only step that is not a write and is of one of these kinds."""
        [found] = [step for steps in self.actors.values() for step in steps if step["op"] in ops]
        return found


class Writers(Ours):
    """Performs the steps of a scene. The rows have the first columns of the table; columns added meanwhile are null.

    `task`: the write belongs to one of two tasks of a pipeline, each of which opens its own dynamic buckets.
    """

    def _write(self, rows: list[list[Any]], *, task: int | None = None, **named: Any) -> None:
        if task is None:
            super()._write(rows, **named)
            return
        table = self.table()
        columns = [(field.name, type_json(field.type)) for field in table.definition.fields]
        with table.writer(self._user) as writer:
            writer._routes.assigner = Assigner(writer.store, writer.layout, writer._state, task, 2)
            writer.write(*arrow_changes(self._fitted(rows, len(columns)), columns))
            writer.commit(named["identifier"])

    def _fitted(self, rows: list[list[Any]], columns: int) -> list[list[Any]]:
        return [[*row, *[None] * (columns + 1 - len(row))] for row in rows]


@dataclass(frozen=True)
class Stage:
    """A scene's table after its history; each performance runs on a copy of it."""

    kind: TableKind
    scene: Scene
    disk: Disk
    made: list[Snapshot]

    @classmethod
    def of(cls, kind: TableKind, scene: Scene) -> Stage:
        stage = cls(kind, scene, Disk(), [])
        story = Story(COLUMNS, list(kind.keys), scene.before, kind.options, list(kind.partitions))
        create_ours(story, SimStore(stage.disk), PATH, ambient(stage.disk, "creator"))
        Performance(stage, stage.disk, stage.made).tell(stage.store(stage.disk, stage.made), "before", scene.before)
        return stage

    @staticmethod
    def store(disk: Disk, made: list[Snapshot], turn: Callable[[Operation], None] = lambda _: None) -> SimStore:
        return Witness(disk, made, turn)

    def performance(self) -> Performance:
        # Every order begins with the same disk.
        return Performance(self, copy.deepcopy(self.disk), list(self.made))


class Witness(SimStore):
    """A store that records every snapshot created, in order, because some expire or are rolled back."""

    def __init__(self, disk: Disk, made: list[Snapshot], turn: Callable[[Operation], None]) -> None:
        super().__init__(disk, turn=turn)
        self._made = made

    def create(self, path: str, data: bytes) -> bool:
        created = super().create(path, data)
        if created and "/snapshot/snapshot-" in path:
            self._made.append(parse_snapshot(data, path))
        return created


@dataclass(frozen=True)
class Performance:
    stage: Stage
    disk: Disk
    made: list[Snapshot]

    def store(self, disk: Disk, turn: Callable[[Operation], None]) -> SimStore:
        return Witness(disk, self.made, turn)

    def actors(self) -> dict[str, Actor]:
        return {
            name: lambda store, name=name, steps=steps: self.tell(store, name, steps)  # type: ignore[misc]
            for name, steps in self.stage.scene.actors.items()
        }

    def tell(self, store: SimStore, actor: str, steps: Sequence[Step]) -> None:
        """Perform steps. A step that lost a conflict, has an unknown outcome, or read what expired is repeated."""
        own = ambient(self.disk, actor)
        ours = Writers(lambda branch: TableStore.open(store, PATH, branch, own), self.stage.scene.user(actor))
        for number, step in enumerate(steps, 1):
            for attempt in range(ATTEMPTS):
                try:
                    ours.tell(step, number)
                    break
                except (CommitConflict, StoreError, ManifestMissing):
                    if attempt == ATTEMPTS - 1:
                        raise

    def check(self) -> None:
        """Check that every write is there once, and that each snapshot has the rows of the writes up to it."""
        scene, table = self.stage.scene, Table(TableStore.open(SimStore(self.disk), PATH, None, ambient(self.disk, "")))
        told, rows_at, writes_at = scene.told(), {0: dict[Key, Row]()}, {0: set[tuple[str, int]]()}
        for snapshot in self.made:
            if snapshot.id in rows_at and not scene.rolls_back:
                continue  # its id had expired before, so its writer withdrew it
            commit = (snapshot.commit_user, snapshot.commit_identifier)
            rows_at[snapshot.id] = self._after(rows_at[snapshot.id - 1], snapshot, told.get(commit))
            new = {commit} if snapshot.commit_kind is not CommitKind.COMPACT else set()
            writes_at[snapshot.id] = writes_at[snapshot.id - 1] | new
        latest = table.snapshots[-1].id
        lost = told.keys() - writes_at[latest]
        assert not lost or scene.rolls_back, f"lost: {lost}"
        shown = {
            item.id: self._relation(table, item, rows_at[item.id])
            for item in table.snapshots
            if is_visible(table, item)
        }
        # A writer interrupted by a rollback writes its hint afterwards; readers check beyond the hint.
        check_invariants(table, model=shown, excused=["I1"] if scene.rolls_back else [])
        # The newest rows are hidden until a compaction: compact, and compare then.
        if latest not in shown:
            table.compact()
            last = table.snapshots[-1]
            final = {last.id: self._relation(table, last, rows_at[latest])}
            check_invariants(table, model=final, excused=["I1"] if scene.rolls_back else [])

    def _after(self, before: Rows, snapshot: Snapshot, step: Step | None) -> Rows:
        if snapshot.commit_kind is CommitKind.COMPACT or snapshot.commit_kind is CommitKind.ANALYZE:
            return before
        if step is not None:
            # The author of the snapshot is known by user and identifier, so its write is applied at the place where
            # it was committed.
            changes = [dict(zip(("kind", "p", "k", "v"), row, strict=True)) for row in step["rows"]]
            kept = before if "overwrite" not in step else self._kept(before, step["overwrite"], changes)
            return self._changed(kept, changes)
        other = self.stage.scene.other("delete", "rescale", "truncate", "drop_partition")
        match other["op"]:
            case "delete":
                column, value = other["where"].split(" = ")
                return {key: row for key, row in before.items() if row[column] != int(value)}
            case "truncate":
                return {}
            case "drop_partition":
                return {key: row for key, row in before.items() if row["p"] != int(other["partition"]["p"])}
        return before

    @staticmethod
    def _kept(before: Rows, partition: Mapping[str, str], changes: Sequence[Row]) -> Rows:
        gone = {int(partition["p"])} if partition else {change["p"] for change in changes}
        return {key: row for key, row in before.items() if row["p"] not in gone}

    def _changed(self, before: Rows, changes: Sequence[Row]) -> Rows:
        rows = dict(before)
        for change in changes:
            row = {name: value for name, value in change.items() if name != "kind"}
            key = tuple(row[name] for name in self.stage.kind.keys or ("k",))
            assert self.stage.kind.keys or key not in rows, (
                f"{key} is written twice: a lost or doubled row would not show"
            )
            if change["kind"] == "-D":
                rows.pop(key, None)
            else:
                rows[key] = row
        return rows

    @staticmethod
    def _relation(table: Table, snapshot: Snapshot, rows: Rows) -> Relation:
        fields = table.store.schemas.get(snapshot.schema_id).fields
        names = tuple(field.name for field in fields)
        found = [[row.get(name) for name in names] for row in rows.values()]
        return Relation(names, tuple(type_json(field.type) for field in fields), found)


def ambient(disk: Disk, name: str) -> Environment:
    draw = random.Random(name)
    return Environment(
        now_millis=disk.clock,
        elapsed_millis=disk.clock,
        zone_offset_millis=lambda _: 0,
        new_uuid=lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4)),
        sleep=lambda seconds: disk.clock.pass_(int(seconds * 1000)),
        jitter=draw.random,
    )
