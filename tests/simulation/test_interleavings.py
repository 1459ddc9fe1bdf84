"""Writers, compactors and expirers on one table, interrupted by each other wherever two interruptions can fall."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.errors import CommitConflict
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind
from penstock.table.meta.store import TableStore
from penstock.table.storage.ambient import Ambient
from tests.invariants import check_invariants
from tests.simulation.interleaving import Actor, orders, run
from tests.simulation.model import Model
from tests.simulation.playing import PATH, is_visible
from tests.simulation.store import Disk, SimStore
from tests.simulation.story import Step, Story
from tests.simulation.tellers import Ours, create_ours

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]
ATTEMPTS = 20


def ambient(disk: Disk, name: str) -> Ambient:
    draw = random.Random(name)
    return Ambient(
        now_millis=disk.clock,
        zone_offset_millis=lambda _: 0,
        new_uuid=lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4)),
        sleep=lambda seconds: disk.clock.pass_(int(seconds * 1000)),
        jitter=draw.random,
    )


class Scene:
    """A table with some history, and actors that each tell their steps. A step that loses to another is told again."""

    def __init__(
        self, options: Mapping[str, str], before: Sequence[Step], actors: Mapping[str, Sequence[Step]]
    ) -> None:
        self.story = Story(COLUMNS, ["k"], before, options)
        self.disk, self.steps = Disk(), dict(actors)
        create_ours(self.story, SimStore(self.disk), PATH, ambient(self.disk, "creator"))
        self.tell(SimStore(self.disk), "before", before)

    def tell(self, store: SimStore, user: str, steps: Sequence[Step]) -> None:
        own = ambient(self.disk, user)
        ours = Ours(lambda branch: TableStore.open(store, PATH, branch, own), user)
        for number, step in enumerate(steps, 1):
            for attempt in range(ATTEMPTS):
                try:
                    ours.tell(step, number)
                    break
                except CommitConflict:
                    assert attempt < ATTEMPTS - 1, f"{user} never got through with {step}"

    def actors(self) -> dict[str, Actor]:
        return {
            user: lambda store, user=user, steps=steps: self.tell(store, user, steps)  # type: ignore[misc]
            for user, steps in self.steps.items()
        }

    def check(self) -> None:
        """Every write stands once, and each snapshot has the rows of the writes up to it, in the order of snapshots."""
        table = Table(TableStore.open(SimStore(self.disk), PATH, None, ambient(self.disk, "checker")))
        model, history = Model(COLUMNS, ["k"], self.story.options), {}
        told = {(user, number): step for user, steps in self.everyone() for number, step in enumerate(steps, 1)}
        wanted = {commit for commit, step in told.items() if step["op"] == "write"}
        for snapshot in table.snapshots:
            commit = (snapshot.commit_user, snapshot.commit_identifier)
            if snapshot.commit_kind is CommitKind.APPEND:
                model.apply(told[commit]["rows"])
                wanted.discard(commit)
            if is_visible(table, snapshot):
                history[snapshot.id] = model.relation()
        expired = table.snapshots[0].id > 1
        assert expired or not wanted, f"lost: {wanted}"
        check_invariants(table, model={} if expired else history)

    def everyone(self) -> list[tuple[str, Sequence[Step]]]:
        return [("before", self.story.steps), *self.steps.items()]


def write(*rows: Sequence[Any]) -> Step:
    return {"op": "write", "rows": [["+I", *row] for row in rows]}


BEFORE = [write((1, "a"), (2, "b")), write((1, "c"), (3, "d"))]
COMPACT = {"op": "compact", "full": True}
SCENES: dict[str, dict[str, Sequence[Step]]] = {
    "two writers": {"one": [write((1, "one"), (4, "one"))], "two": [write((1, "two"), (5, "two"))]},
    "writer and compactor": {"one": [write((1, "one"))], "two": [COMPACT]},
    "two compactors": {"one": [COMPACT], "two": [COMPACT]},
    "writer and expirer": {"one": [write((1, "one"))], "two": [{"op": "expire", "retain": 1}]},
    "compactor and expirer": {"one": [COMPACT], "two": [{"op": "expire", "retain": 1}]},
}
TABLES: dict[str, dict[str, str]] = {
    "plain": {"bucket": "1", "write-only": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.timeout(3000)
def test_no_order_of_two_actors_breaks_the_table(scene: str, table: str, night: bool) -> None:
    for order in orders(bound=2 if night else 1):
        staged = Scene(TABLES[table], BEFORE, SCENES[scene])
        run(order, staged.actors(), staged.disk)
        try:
            staged.check()
        except AssertionError as error:
            raise AssertionError(f"{scene}, {table}, order {order.taken}") from error
