"""The commit protocol in miniature, and every order in which its actors can act.

The table has one key per bucket. Writers add a new value to level 0; compactors merge a bucket into level 1. With
deletion vectors, a compactor of level 0 leaves the older file in the upper level and hides its row; a full compactor
rewrites everything. Each actor looks at the newest snapshot, works, and offers the next snapshot, and any other actor
may act in between. `explore` visits all reachable states and returns the shortest path to a wrong one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol. Disabling any of them must make a wrong state reachable."""

    create_if_absent: bool = True  # the store creates a snapshot file only if none exists
    sees_foreign_rows: bool = True  # a writer starts again if another writer changed its bucket since it looked
    inputs_still_live: bool = True  # a compaction is dropped if one of its inputs is gone
    hidden_still_live: bool = True  # ... or a file whose row it hides
    vectors_still_current: bool = True  # ... or if the bucket's vectors have changed since it looked
    deletion_vectors: bool = False


@dataclass(frozen=True, slots=True, order=True)
class File:
    name: int
    bucket: int
    level: int
    sequence: int
    value: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    files: frozenset[File] = frozenset()
    deleted: frozenset[int] = frozenset()  # names of files whose row a deletion vector hides
    wrote: tuple[int, int] | None = None  # the bucket and value of an append


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor. `seen` is the newest snapshot when its work began, `base` when its offer was built."""

    role: str  # writer, compactor (of level 0) or full compactor
    bucket: int
    turns: int
    doing: str = "look"
    seen: int = 0
    inputs: frozenset[File] = frozenset()
    made: File | None = None
    hides: frozenset[int] = frozenset()
    base: int = 0
    offer: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class State:
    history: tuple[Snapshot, ...]  # snapshot n is at index n; index 0 is the empty table
    actors: tuple[Actor, ...]
    named: int = 0
    acknowledged: tuple[tuple[int, int], ...] = ()  # appends that were acknowledged to their writers, in order


def writer(bucket: int = 0, turns: int = 1) -> Actor:
    return Actor("writer", bucket, turns)


def compactor(bucket: int = 0, turns: int = 1) -> Actor:
    return Actor("compactor", bucket, turns)


def full_compactor(bucket: int = 0, turns: int = 1) -> Actor:
    return Actor("full compactor", bucket, turns)


def explore(rules: Rules, *actors: Actor, most: int = 2_000_000) -> str | None:
    """Return the shortest path to a wrong state, or None if no wrong state is reachable."""
    first = State((Snapshot(),), actors)
    # Breadth first, so that the first wrong state has the shortest path.
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        if (wrong := what_is_wrong(state, rules)) is not None:
            return f"{wrong}: {'; '.join(way_to(state, came_from))}"
        for step, after in steps(state, rules):
            if after not in came_from:
                came_from[after] = (state, step)
                waiting.append(after)
        assert len(came_from) < most, "too many states: make the case smaller"
    return None


def way_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> list[str]:
    steps_taken: list[str] = []
    while (before := came_from[state]) is not None:
        state, step = before
        steps_taken.append(step)
    return steps_taken[::-1]


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    for place, actor in enumerate(state.actors):
        if not actor.turns:
            continue
        name = f"{actor.role} {place}"
        if actor.doing == "look":
            yield f"{name} looks", look(state, place, actor, rules)
        elif actor.doing == "check":
            yield f"{name} checks", check(state, place, actor, rules)
        else:
            yield f"{name} offers {actor.base + 1}", offer(state, place, actor, rules)


def acted(state: State, place: int, actor: Actor) -> State:
    return replace(state, actors=(*state.actors[:place], actor, *state.actors[place + 1 :]))


def finished(actor: Actor) -> Actor:
    return Actor(actor.role, actor.bucket, actor.turns - 1)


def files_in(snapshot: Snapshot, bucket: int) -> frozenset[File]:
    return frozenset(file for file in snapshot.files if file.bucket == bucket)


def look(state: State, place: int, actor: Actor, rules: Rules) -> State:
    """Read the newest snapshot and create the new file."""
    there = files_in(state.history[-1], actor.bucket)
    seen = replace(actor, doing="check", seen=len(state.history) - 1)
    if actor.role == "writer":
        number = max((file.sequence for file in there), default=-1) + 1
        seen = replace(seen, made=File(state.named, actor.bucket, 0, number, state.named))
        return acted(replace(state, named=state.named + 1), place, seen)
    fresh = frozenset(file for file in there if file.level == 0)
    leaves_upper = rules.deletion_vectors and actor.role == "compactor"
    inputs = fresh if leaves_upper else there
    if not inputs or (actor.role == "compactor" and not fresh):
        return acted(state, place, finished(actor))
    newest = max(inputs - hidden_files(state.history[-1]), key=lambda file: (file.sequence, file.name))
    made = File(state.named, actor.bucket, 1, newest.sequence, newest.value)
    hides = frozenset(file.name for file in there - inputs)
    return acted(replace(state, named=state.named + 1), place, replace(seen, made=made, inputs=inputs, hides=hides))


def hidden_files(snapshot: Snapshot) -> frozenset[File]:
    return frozenset(file for file in snapshot.files if file.name in snapshot.deleted)


def vectors_of(snapshot: Snapshot, bucket: int) -> frozenset[int]:
    return frozenset(file.name for file in hidden_files(snapshot) if file.bucket == bucket)


def check(state: State, place: int, actor: Actor, rules: Rules) -> State:
    """Check the work against the newest snapshot, and build the next snapshot on it."""
    latest, made = state.history[-1], actor.made
    assert made is not None
    if actor.role == "writer":
        # Numbers from this writer's first one on can only be those of a writer that committed after its look.
        foreign = any(file.sequence >= made.sequence for file in files_in(latest, actor.bucket))
        if rules.sees_foreign_rows and foreign:
            return acted(state, place, Actor(actor.role, actor.bucket, actor.turns))
        next_one = Snapshot(latest.files | {made}, latest.deleted, (actor.bucket, made.value))
    elif not may_replace(state.history[actor.seen], latest, actor, rules):
        return acted(state, place, finished(actor))
    else:
        next_one = compacted(state.history[actor.seen], latest, actor, made)
    return acted(state, place, replace(actor, doing="offer", base=len(state.history) - 1, offer=next_one))


def may_replace(seen: Snapshot, latest: Snapshot, actor: Actor, rules: Rules) -> bool:
    names = {file.name for file in latest.files}
    if rules.inputs_still_live and not actor.inputs <= latest.files:
        return False
    if rules.hidden_still_live and not actor.hides <= names:
        return False
    return not rules.vectors_still_current or vectors_of(seen, actor.bucket) == vectors_of(latest, actor.bucket)


def compacted(seen: Snapshot, latest: Snapshot, actor: Actor, made: File) -> Snapshot:
    """Return the snapshot after a compaction.

    The vectors of a bucket are in one file, which a compaction replaces as a whole.
    """
    gone = {file.name for file in actor.inputs}
    kept = latest.deleted - vectors_of(latest, actor.bucket)
    own = (vectors_of(seen, actor.bucket) | actor.hides) - gone
    return Snapshot(latest.files - actor.inputs | {made}, kept | own)


def offer(state: State, place: int, actor: Actor, rules: Rules) -> State:
    assert actor.offer is not None
    number = actor.base + 1
    # The snapshot exists: another actor was faster.
    if number < len(state.history):
        if rules.create_if_absent:
            return acted(state, place, replace(actor, doing="check", offer=None))
        history = (*state.history[:number], actor.offer, *state.history[number + 1 :])
    else:
        history = (*state.history, actor.offer)
    wrote = actor.offer.wrote
    believed = (*state.acknowledged, wrote) if wrote else state.acknowledged
    return acted(replace(state, history=history, acknowledged=believed), place, finished(actor))


def what_is_wrong(state: State, rules: Rules) -> str | None:
    appended = [snapshot.wrote for snapshot in state.history if snapshot.wrote]
    if sorted(appended) != sorted(state.acknowledged):
        return "an acknowledged write is not in the history"
    for number, snapshot in enumerate(state.history):
        names = {file.name for file in snapshot.files}
        if not snapshot.deleted <= names:
            return f"snapshot {number} has a vector of a file that is gone"
        for bucket in {file.bucket for file in snapshot.files}:
            last = [wrote[1] for s in state.history[: number + 1] if (wrote := s.wrote) and wrote[0] == bucket][-1]
            if (wrong := wrong_read(snapshot, bucket, last, rules)) is not None:
                return f"snapshot {number}, bucket {bucket}: {wrong}"
    return None


def wrong_read(snapshot: Snapshot, bucket: int, last: int, rules: Rules) -> str | None:
    files = files_in(snapshot, bucket)
    if not rules.deletion_vectors:
        if sum(file.level for file in files) > 1:
            return "two files of level 1 overlap"
        top = max(file.sequence for file in files)
        newest = {file.value for file in files if file.sequence == top}
        return None if newest == {last} else f"reads {sorted(newest)}, {last} was written last"
    visible = [file.value for file in files if file.level and file.name not in snapshot.deleted]
    if len(visible) > 1:
        return f"the key is there {len(visible)} times"
    # While level 0 has files, readers with deletion vectors see the rows of before.
    settled = all(file.level for file in files)
    return None if not settled or visible == [last] else f"reads {visible}, {last} was written last"
