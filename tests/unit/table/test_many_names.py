"""The requests of an operation grow with the tags, branches and snapshots of a table, not with their square."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.table.handle import Table
from penstock.table.maintenance.tag_deletion import delete_tags
from tests.unit.table.tables import new_table, rows

FEW = 20
KEPT = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}


class CountedStore:
    """A store that counts its calls."""

    def __init__(self, store: Any) -> None:
        self._store, self.calls = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments, **named)

        return counted


def write(table: Table, number: int = 0) -> None:
    with table.writer() as writer:
        writer.write(rows(table, (number, "a", None)))
        writer.commit()


def tagged(folder: Path, count: int) -> Table:
    """Return a table with tags of one snapshot, which is there."""
    table = new_table(folder / str(count), options=KEPT)
    write(table)
    for number in range(count):
        table.create_tag(f"t{number}")
    return table


def expired(folder: Path, count: int) -> Table:
    """Return a table with tags of snapshots that have expired."""
    table = new_table(folder / str(count), options=KEPT)
    for number in range(count):
        write(table, number)
        table.create_tag(f"t{number}")
    write(table)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    return table


def expired_with_branches(folder: Path, count: int) -> Table:
    """Return a table with tags of snapshots that have expired, and as many branches."""
    table = expired(folder, count)
    table.create_tag("newest")
    for number in range(count):
        table.create_branch(f"b{number}", "newest")
    return table


def branched(folder: Path, count: int) -> Table:
    table = tagged(folder / str(count), 1)
    for number in range(count):
        table.create_branch(f"b{number}", "t0")
    return table


def committed(folder: Path, count: int) -> Table:
    table = new_table(folder / str(count), options=KEPT)
    for number in range(count):
        write(table, number)
    return table


Work = Callable[[Table, int], object]
# Operations whose requests do not depend on the number, and those that grow with it.
CONSTANT: Mapping[Callable[[Path, int], Table], Mapping[str, Work]] = {
    tagged: {
        "create a tag": lambda table, _: table.create_tag("new"),
        "delete a tag": lambda table, _: table.delete_tag("t0"),
        "write": lambda table, _: write(table),
    },
    branched: {
        "create a branch": lambda table, _: table.create_branch("new", "t0"),
        "delete a branch": lambda table, _: table.delete_branch("b0"),
        "write": lambda table, _: write(table),
    },
    committed: {
        "create a tag": lambda table, _: table.create_tag("new"),
        "the last changes": lambda table, count: table.changes(count - 2, count),
    },
}
GROWING: Mapping[Callable[[Path, int], Table], Mapping[str, Work]] = {
    tagged: {
        "list": lambda table, _: table.system("tags"),
        "delete all": lambda table, count: [table.delete_tag(f"t{number}") for number in range(count)],
    },
    expired: {"delete one": lambda table, _: table.delete_tag("t1")},
    expired_with_branches: {
        "delete all": lambda table, count: delete_tags(table.store, [f"t{number}" for number in range(count)])
    },
    branched: {
        "orphans": lambda table, _: table.remove_orphan_files(dry_run=True),
        "delete all": lambda table, count: [table.delete_branch(f"b{number}") for number in range(count)],
    },
    committed: {
        "list": lambda table, _: table.system("snapshots"),
        "all changes": lambda table, count: table.changes(0, count),
        "scan": lambda table, _: table.scan().to_arrow(),
        "expire": lambda table, count: table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60),
        "compact": lambda table, _: table.compact(full=True),
    },
}


def requests(made: Callable[[Path, int], Table], folder: Path, count: int, works: Mapping[str, Work]) -> dict[str, int]:
    table, found = made(folder, count), {}
    for name, work in works.items():
        store = CountedStore(table.store.storage)
        work(Table(replace(table.store, storage=store)), count)
        found[name] = store.calls.total()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("made", CONSTANT, ids=lambda made: made.__name__)
def test_the_requests_do_not_depend_on_the_number(tmp_path: Path, made: Callable[[Path, int], Table]) -> None:
    few = requests(made, tmp_path, FEW, CONSTANT[made])
    assert requests(made, tmp_path, 2 * FEW, CONSTANT[made]) == few


@pytest.mark.slow
@pytest.mark.parametrize("made", GROWING, ids=lambda made: made.__name__)
def test_twice_as_many_cost_twice_the_requests(tmp_path: Path, made: Callable[[Path, int], Table]) -> None:
    """A square would be four times as many."""
    few = requests(made, tmp_path, FEW, GROWING[made])
    many = requests(made, tmp_path, 2 * FEW, GROWING[made])
    assert {name: (few[name], many[name]) for name in few if many[name] > 2.5 * few[name]} == {}


def expiry_requests(folder: Path, branches: int, rounds: int) -> list[int]:
    """Return the requests of expiries of one snapshot each, in a table with branches of an older tag."""
    table, found = committed(folder / str(branches), 4), list[int]()
    table.create_tag("old")
    for number in range(branches):
        table.create_branch(f"b{number}", "old")
    for number in range(rounds):
        write(table, number)
    store = CountedStore(table.store.storage)
    counted = Table(replace(table.store, storage=store))
    for _ in range(rounds):
        store.calls.clear()
        assert counted.expire_snapshots(max_deletes=1, retain_max=1, retain_min=1, older_than=2**60).snapshots == 1
        found.append(store.calls.total())
    return found


@pytest.mark.slow
def test_an_expiry_asks_for_little_of_each_branch(tmp_path: Path) -> None:
    """Only for what may have changed in it: its snapshots, tags, changelogs and schema; 22 requests once."""
    few, many = expiry_requests(tmp_path, 2, 3), expiry_requests(tmp_path, 6, 3)
    assert [more - less for less, more in zip(few, many, strict=True)] == [4 * 11] * 3
