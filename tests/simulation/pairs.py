"""Two operations of a table at once: the second is done completely between two store operations of the first.

play = PairPlay("append", "orphans", "rename tag")
play.operations                              # how many store operations the first one asks for
play.run(at=40)                              # AssertionError unless the result is one of doing them in turn
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import PenstockError
from penstock.table.handle import Table
from penstock.table.maintenance.branches import create_branch, delete_branch, fast_forward
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.tag_deletion import delete_tag, expire_tags
from penstock.table.maintenance.tags import create_tag, rename_tag, replace_tag
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.operations.executor import OwnProcess
from penstock.table.operations.repair import compact_manifests
from penstock.table.schema.schema_files import SchemaFiles
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.simulation import verbs
from tests.simulation.store import Disk, Operation, SimStore
from tests.simulation.verbs import PATH, Verb, ambient, prepared, rows_of

DAYS = 3 * 86_400_000
Part = tuple[object, ...]


def _in_turn(*parts: Verb) -> Verb:
    def verb(store: TableStore) -> None:
        for part in parts:
            part(store)

    return verb


_delete_kept: Verb = lambda store: delete_tag(store, "kept")  # noqa: E731
# What a job may do beside any other: maintenance, and what people do by hand.
VERBS: Mapping[str, Verb] = {
    **{name: verbs.VERBS[name] for name in ("tag", "delete tag", "replace tag", "branch", "expire", "rollback")},
    **{name: verbs.VERBS[name] for name in ("write", "compact", "overwrite one partition", "clone")},
    "rename tag": lambda store: rename_tag(store, "kept", "renamed"),
    "tag again": lambda store: create_tag(store, "new", 1),
    "tag again, delete tag": _in_turn(lambda store: create_tag(store, "new", 1), _delete_kept),
    "tag again, replace tag": _in_turn(
        lambda store: create_tag(store, "new", 1), lambda store: replace_tag(store, "kept")
    ),
    "expire tags": lambda store: expire_tags(store, older_than=store.ambient.now_millis() + 1),
    "branch, delete tag": _in_turn(lambda store: create_branch(store, "new", "kept"), _delete_kept),
    "delete branch": lambda store: delete_branch(store, "side"),
    "fast-forward, delete branch": _in_turn(
        lambda store: fast_forward(store, "side"), lambda store: delete_branch(store, "side")
    ),
    "rollback to snapshot": lambda store: rollback_to(store, 1),
    "rollback, delete tag": _in_turn(lambda store: rollback_to(store, "kept"), _delete_kept),
    "copy files": verbs.copied,
    "orphans": lambda store: remove_orphans(store, executor=OwnProcess()),
    "manifests": compact_manifests,
}
COPIES = {"copy files", "clone"}
# Where the first snapshot is kept: by itself and a branch, by itself, by the tag and a branch, by the tag.
STATES = ("branch", "no branch", "expired, branch", "expired")


@functools.cache
def _disk(kind: str, state: str) -> Disk:
    """Return the table of `verbs`, days later, so that all of its files are old enough to be orphans."""
    disk = _copy(prepared(kind))
    store = TableStore.open(SimStore(disk), PATH, None, ambient(disk, "before"))
    if not state.endswith("branch") or state == "no branch":
        delete_branch(store, "side")
    if state.startswith("expired"):
        verbs.VERBS["expire"](store)
    disk.clock.pass_(DAYS)
    return disk


def _copy(disk: Disk) -> Disk:
    made = Disk(files=dict(disk.files), folders=set(disk.folders))
    made.clock.millis = disk.clock.millis
    return made


def _performed(disk: Disk, verb: str, turn: Any = lambda _: None) -> tuple[PenstockError | OSError | None, int]:
    """Perform a verb; return what it was refused for, and the number of its store operations."""
    log: list[Operation] = []
    try:
        VERBS[verb](TableStore.open(SimStore(disk, log=log, turn=turn), PATH, None, ambient(disk, verb)))
    except (PenstockError, OSError) as refusal:
        # What is left of a copy is not one without rows.
        SimStore(disk).delete_tree(verbs.COPY)
        return refusal, len(log)
    return None, len(log)


def _parts(disk: Disk, *, check: bool) -> Iterator[Part]:
    """Yield what users see: the rows of each branch and tag. A renamed tag is the same tag."""
    main = TableStore.open(SimStore(disk), PATH, None, ambient(disk, "look"))
    for branch in (None, *branch_names(main)):
        if branch is not None and not main.schemas.on_branch(branch).ids():
            continue
        table = Table(TableStore.open(SimStore(disk), PATH, branch, ambient(disk, "look")))
        if check:
            check_invariants(table)
        yield branch, "rows", *rows_of(table.scan().to_arrow())
        for name in table.tags:
            yield branch, "kept" if name == "renamed" else name, *rows_of(table.scan(tag=name).to_arrow())
    if SchemaFiles(SimStore(disk), verbs.COPY).ids():
        copy = Table(TableStore.open(SimStore(disk), verbs.COPY, None, ambient(disk, "look")))
        if check:
            check_invariants(copy)
        yield "copy", "rows", *rows_of(copy.scan().to_arrow())


@functools.cache
def _after(kind: str, state: str, *done: str) -> frozenset[Part]:
    """Return what users see after verbs that were done one after the other."""
    disk = _copy(_disk(kind, state))
    for verb in done:
        _performed(disk, verb)
    return frozenset(_parts(disk, check=False))


class PairPlay:
    """A verb, and another that is performed at one of its store operations."""

    def __init__(self, kind: str, first: str, other: str, state: str = "expired") -> None:
        self.kind, self.first, self.other, self.state = kind, first, other, state
        self.operations = _performed(_copy(_disk(kind, state)), first)[1]

    def run(self, at: int) -> None:
        """Check that each branch and tag has the rows of one of the two orders, and that no file is missing."""
        disk, count, refused, between = _copy(_disk(self.kind, self.state)), 0, [], set[Part]()

        def turn(_: Operation) -> None:
            nonlocal count
            count += 1
            if count == at:
                if "overwrite" in self.first and self.other in COPIES:
                    # Rows of a table with deletion vectors are visible after the second of two commits, as in Java.
                    rows = [part[1:] for part in _parts(disk, check=False) if part[:2] == (None, "rows")]
                    between.update(("copy", *row) for row in rows)
                refused.append(_performed(disk, self.other)[0])

        refused.append(_performed(disk, self.first, turn)[0])
        seen = set(_parts(disk, check=True))
        wrong = seen - self._possible() - between
        assert not wrong, f"{wrong}\nrefused: {refused}"
        _performed(disk, "orphans")
        assert set(_parts(disk, check=True)) == seen, f"after the removal of orphans; refused: {refused}"

    def _possible(self) -> frozenset[Part]:
        # One of the two may be refused, or find nothing to do any more.
        orders = ((self.first, self.other), (self.other, self.first), (self.first,), (self.other,), ())
        return frozenset().union(*(_after(self.kind, self.state, *order) for order in orders))
