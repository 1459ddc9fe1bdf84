"""Two or three jobs on one table, interrupted by each other at every operation that another job can notice."""

from __future__ import annotations

import random

import pytest

from tests.simulation.interleaving import Choice, RandomOrder, orders, run
from tests.simulation.plays import count_play
from tests.simulation.scenes import Scene, Stage, TableKind, write
from tests.simulation.story import Step

# Cross-partition keys are left out: their index on local disk has a lock that would block an interrupted order.
KEYED = {
    "plain": TableKind({"bucket": "1", "write-only": "true"}),
    "compacting": TableKind({"bucket": "1", "num-sorted-run.compaction-trigger": "2"}),
    "lookup": TableKind({"bucket": "1", "changelog-producer": "lookup"}),
    "vectors": TableKind({"bucket": "1", "deletion-vectors.enabled": "true"}),
    "full": TableKind({"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"}),
    "dynamic": TableKind({"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
}
APPEND = {
    "append": TableKind({"bucket": "-1", "compaction.min.file-num": "2"}, keys=()),
    "append vectors": TableKind({"bucket": "-1", "deletion-vectors.enabled": "true"}, keys=()),
}
SHORT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
TABLES = {**KEYED, **APPEND}
TABLES |= {
    f"{name}, short history": TableKind({**kind.options, **SHORT}, kind.keys, kind.partitions)
    for name, kind in TABLES.items()
    if name in {"plain", "vectors", "dynamic", "append"}
}

BEFORE = [write((1, 1, "a"), (1, 2, "b")), write((1, 3, "c"), (2, 4, "d"))]
ONE = [write((1, 11, "one"), (2, 12, "one"))]
TWO = [write((1, 21, "two"), (2, 22, "two"))]
SAME_KEYS = {"one": [write((1, 1, "one"), (1, 7, "one"))], "two": [write((1, 1, "two"), (1, 7, "two"))]}
COMPACT: Step = {"op": "compact", "full": True}
EXPIRE: Step = {"op": "expire", "retain": 1}
ADD_COLUMN: Step = {"op": "alter", "changes": [{"kind": "add", "name": "w", "type": "INT"}]}


def with_writer(*steps: Step, whole: bool = False) -> Scene:
    return Scene(BEFORE, {"one": ONE, "two": list(steps)}, whole={"two"} if whole else ())


EVERYWHERE = {
    "two writers": with_writer(*TWO),
    "one writer twice": Scene(BEFORE, {"one": ONE, "two": ONE}, {"two": "one"}),
    "writer and compactor": with_writer(COMPACT),
    "writer and expirer": with_writer(EXPIRE),
    "writer and static overwrite": with_writer(write((1, 31, "new"), overwrite={"p": "1"})),
    "writer and dynamic overwrite": with_writer(write((1, 31, "new"), overwrite={})),
    "writer and truncate": with_writer({"op": "truncate"}),
    "writer and dropped partition": with_writer({"op": "drop_partition", "partition": {"p": "1"}}),
    "writer and delete": with_writer({"op": "delete", "where": "k = 1"}),
    "writer and rollback": with_writer({"op": "rollback", "snapshot": 1}, whole=True),
    "writer and added column": with_writer(ADD_COLUMN),
    "two compactors": Scene(BEFORE, {"one": [COMPACT], "two": [COMPACT]}),
    "compactor and expirer": Scene(BEFORE, {"one": [COMPACT], "two": [EXPIRE]}),
    "compactor and delete": Scene(BEFORE, {"one": [COMPACT], "two": [{"op": "delete", "where": "k = 1"}]}),
    "two overwrites": Scene(
        BEFORE,
        {
            "one": [write((1, 41, "one"), overwrite={"p": "1"})],
            "two": [write((1, 31, "two"), (2, 32, "two"), overwrite={})],
        },
    ),
    "overwrite and expirer": Scene(BEFORE, {"one": [write((1, 41, "one"), overwrite={})], "two": [EXPIRE]}),
    "overwrite and delete": Scene(
        BEFORE, {"one": [write((1, 41, "one"), overwrite={"p": "1"})], "two": [{"op": "delete", "where": "k = 2"}]}
    ),
    "overwrite and rollback": Scene(
        BEFORE,
        {"one": [write((1, 41, "one"), overwrite={})], "two": [{"op": "rollback", "snapshot": 1}]},
        whole={"two"},
    ),
    "overwrite and added column": Scene(BEFORE, {"one": [write((1, 41, "one"), overwrite={})], "two": [ADD_COLUMN]}),
    "compactor and added column": Scene(BEFORE, {"one": [COMPACT], "two": [ADD_COLUMN]}),
    "compactor and rollback": Scene(
        BEFORE, {"one": [COMPACT], "two": [{"op": "rollback", "snapshot": 1}]}, whole={"two"}
    ),
    "delete and expirer": Scene(BEFORE, {"one": [{"op": "delete", "where": "k = 1"}], "two": [EXPIRE]}),
    "two expirers": Scene(BEFORE, {"one": [EXPIRE], "two": [EXPIRE]}),
    "one writer twice and a compactor": Scene(
        BEFORE, {"one": ONE, "two": ONE, "three": [COMPACT]}, users={"two": "one"}
    ),
    "compactor and overwrite": Scene(BEFORE, {"one": [COMPACT], "two": [write((1, 31, "new"), overwrite={})]}),
}
ON_KEYS = {
    "writers of one key": Scene(BEFORE, SAME_KEYS),
    "writer of a key and overwrite": Scene(
        BEFORE, {"one": SAME_KEYS["one"], "two": [write((1, 1, "new"), (1, 31, "new"), overwrite={"p": "1"})]}
    ),
    "writer of a key and delete": Scene(BEFORE, {"one": SAME_KEYS["one"], "two": [{"op": "delete", "where": "k = 1"}]}),
    "writer of a key and rollback": Scene(
        BEFORE, {"one": SAME_KEYS["one"], "two": [{"op": "rollback", "snapshot": 1}]}, whole={"two"}
    ),
}
ON_DYNAMIC = {
    "tasks that open buckets of their own": Scene(
        BEFORE, {"one": [write((3, 7, "one"))], "two": [write((3, 7, "two"), task=1)]}
    ),
}
# An expiry that leaves one snapshot removes what a commit has to check, and frees the id that the commit was to get.
ON_SHORT = {
    "writer of a key, commits and expiry": Scene(
        BEFORE, {"one": SAME_KEYS["one"], "two": [*SAME_KEYS["two"], write((2, 41, "x")), EXPIRE]}
    ),
}
ON_BUCKETS = {
    "writer and rescaler": with_writer({"op": "rescale"}),
    "compactor and rescaler": Scene(BEFORE, {"one": [COMPACT], "two": [{"op": "rescale"}]}),
}


def cases() -> list[tuple[str, str]]:
    keyed = [name for name in TABLES if TABLES[name].keys]
    bucketed = [name for name in TABLES if TABLES[name].options["bucket"] == "1"]
    found = [(scene, table) for scene in EVERYWHERE for table in TABLES]
    found += [(scene, table) for scene in ON_KEYS for table in keyed]
    found += [(scene, table) for scene in ON_BUCKETS for table in bucketed]
    found += [(scene, table) for scene in ON_DYNAMIC for table in keyed if table.startswith("dynamic")]
    found += [(scene, table) for scene in ON_SHORT for table in keyed if "short history" in table]
    # The snapshot to roll back to has expired there.
    return [(scene, table) for scene, table in found if "rollback" not in scene or "short history" not in table]


SCENES = {**EVERYWHERE, **ON_KEYS, **ON_BUCKETS, **ON_DYNAMIC, **ON_SHORT}


# Large enough that a writer's compaction leaves the upper levels in place and marks their rows as deleted.
_DRAW = random.Random(1)
MANY = [
    write(*((1, number, _DRAW.randbytes(150).hex()) for number in range(400))),
    COMPACT,
    write(*((1, number, _DRAW.randbytes(150).hex()) for number in range(1, 60))),
]
LARGE = {
    "vectors": TABLES["vectors"],
    "vectors, lookup": TableKind({**TABLES["vectors"].options, "changelog-producer": "lookup"}),
    "lookup": TABLES["lookup"],
    "compacting": TABLES["compacting"],
}
ON_MANY = {
    "writer and full compactor": Scene(MANY, {"one": [write((1, 2, "x"), (1, 350, "x"))], "two": [COMPACT]}),
    "two writers and a full compactor": Scene(
        MANY,
        {
            "one": [write((1, 2, "x"), (1, 350, "x")), write((1, 350, "y"))],
            "two": [COMPACT],
            "three": [write((1, 2, "z"), (1, 351, "z"))],
        },
    ),
    "writer and two compactors": Scene(
        MANY, {"one": [write((1, 2, "x")), write((1, 350, "y"))], "two": [COMPACT, COMPACT], "three": [COMPACT]}
    ),
}


def play(stage: Stage, order: Choice, message: str) -> None:
    performance = stage.performance()
    try:
        run(order, performance.actors(), performance.disk, store=performance.store, whole=stage.scene.whole)
        performance.check()
        count_play()
    except AssertionError as error:
        raise AssertionError(f"{message}: {error}") from error


def play_at_random(stage: Stage, message: str, seeds: int) -> None:
    for seed in range(seeds):
        play(stage, RandomOrder(seed, rate=0.2), f"{message}, seed {seed}")


def play_all(stage: Stage, message: str, bound: int) -> None:
    for order in orders(bound):
        play(stage, order, f"{message}, order {order.taken}")


QUICK = ("plain", "vectors", "dynamic", "append")
# Each of these failed once, or covers a rule of the commit that no other scene covers.
CORE = [
    ("tasks that open buckets of their own", "dynamic"),
    ("writer of a key, commits and expiry", "plain, short history"),
    ("writers of one key", "vectors"),
    ("one writer twice", "plain"),
    ("one writer twice", "append"),
    ("writer and compactor", "vectors"),
    ("writer of a key and overwrite", "dynamic"),
    ("writer and dynamic overwrite", "full"),
    ("compactor and delete", "append vectors"),
    ("compactor and delete", "append, short history"),
    ("writer and rescaler", "plain, short history"),
    ("writer of a key and rollback", "dynamic"),
    ("writers of one key", "dynamic"),
    ("two overwrites", "append"),
]


@pytest.mark.parametrize(
    ("scene", "table"),
    [pytest.param(*case, marks=[] if case[1] in QUICK else [pytest.mark.slow]) for case in cases()],
)
def test_random_orders_of_two_jobs_keep_the_table_correct(scene: str, table: str, night: bool) -> None:
    play_at_random(Stage.of(TABLES[table], SCENES[scene]), f"{scene}, {table}", seeds=100 if night else 1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("scene", "table"), CORE)
def test_no_order_of_two_jobs_breaks_the_table(scene: str, table: str, night: bool) -> None:
    play_all(Stage.of(TABLES[table], SCENES[scene]), f"{scene}, {table}", bound=2 if night else 1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("table", LARGE)
@pytest.mark.parametrize("scene", ON_MANY)
def test_minor_and_full_compactions_are_interleaved(scene: str, table: str, night: bool) -> None:
    play_at_random(Stage.of(LARGE[table], ON_MANY[scene]), f"{scene}, {table}", seeds=100 if night else 3)


def test_a_full_compaction_that_missed_new_vectors_is_not_committed() -> None:
    play_at_random(Stage.of(LARGE["vectors"], ON_MANY["writer and full compactor"]), "many", seeds=6)
