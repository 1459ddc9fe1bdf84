"""Arguments at the ends of their ranges: they are refused, or the table can be read afterwards.

A snapshot with an identifier beyond 64 bits was committed, and no reader could open the table any more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError

NUMBERS: list[Any] = [-(1 << 63) - 1, -(1 << 63), -(1 << 31) - 1, -1, 0, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 200]
TEXTS: list[Any] = ["", " ", "\ud800", "\udc80", "\0", "a\nb", "/", "..", "x" * 300, "\U0001f600", "None"]
NO_VALUES: list[Any] = [None, True, 1.5, float("nan"), b"x", [], {}, object()]
Call = Callable[[penstock.Catalog, penstock.Table, Any], object]


def rows() -> pa.Table:
    return pa.table({"id": [1], "v": ["new"]})


def commit(table: penstock.Table, user: Any = None, **given: Any) -> None:
    with table.writer(commit_user=user) as writer:
        writer.write(rows())
        writer.commit(**given)


def overwrite(table: penstock.Table, **given: Any) -> None:
    with table.overwrite(**given) as writer:
        writer.write(rows())


def create(catalog: penstock.Catalog, name: Any = "s.new", **given: Any) -> None:
    catalog.create_table(name, **({"schema": [("id", "INT NOT NULL")], "primary_keys": ["id"]} | given))


CALLS: dict[str, Call] = {
    "identifier": lambda c, t, x: commit(t, "user", identifier=x),
    "watermark": lambda c, t, x: commit(t, watermark=x),
    "a property": lambda c, t, x: commit(t, properties={"k": x}),
    "the name of a property": lambda c, t, x: commit(t, properties={x if isinstance(x, str) else 5: "v"}),
    "properties": lambda c, t, x: commit(t, properties=x),
    "commit_user": lambda c, t, x: commit(t, x, identifier=1),
    "commit_user of an overwrite": lambda c, t, x: overwrite(t, commit_user=x),
    "partition of an overwrite": lambda c, t, x: overwrite(t, partition=x),
    "tag": lambda c, t, x: t.create_tag(x),
    "snapshot of a tag": lambda c, t, x: t.create_tag("tag", x),
    "retain_millis": lambda c, t, x: t.create_tag("tag", retain_millis=x),
    "retain_millis of another snapshot": lambda c, t, x: t.replace_tag("kept", retain_millis=x),
    "timestamp of a tag": lambda c, t, x: t.create_tag("tag", timestamp=x),
    "watermark of a tag": lambda c, t, x: t.create_tag("tag", watermark=x),
    "new name of a tag": lambda c, t, x: t.rename_tag("kept", x),
    "branch": lambda c, t, x: t.create_branch(x),
    "tag of a branch": lambda c, t, x: t.create_branch("b", x),
    "consumer": lambda c, t, x: t.reset_consumer(x, 1),
    "next_snapshot": lambda c, t, x: t.reset_consumer("reader", x),
    "rollback": lambda c, t, x: t.rollback_to(x),
    "retain_max": lambda c, t, x: t.expire_snapshots(retain_max=x),
    "retain_min": lambda c, t, x: t.expire_snapshots(retain_min=x),
    "older_than": lambda c, t, x: t.expire_snapshots(older_than=x),
    "max_deletes": lambda c, t, x: t.expire_snapshots(older_than=0, max_deletes=x),
    "older_than of tags": lambda c, t, x: t.expire_tags(older_than=x),
    "older_than of consumers": lambda c, t, x: t.expire_consumers(x),
    "older_than of orphans": lambda c, t, x: t.remove_orphan_files(older_than=x),
    "buckets": lambda c, t, x: t.rescale(x),
    "option bucket": lambda c, t, x: c.alter_table("s.t", [penstock.SetOption("bucket", x)]),
    "option of the user": lambda c, t, x: c.alter_table("s.t", [penstock.SetOption("penstock.own", x)]),
    "new column": lambda c, t, x: c.alter_table("s.t", [penstock.AddColumn(x, "INT")]),
    "type": lambda c, t, x: c.alter_table("s.t", [penstock.AddColumn("c", x)]),
    "comment of a column": lambda c, t, x: c.alter_table("s.t", [penstock.AddColumn("c", "INT", comment=x)]),
    "comment of a new table": lambda c, t, x: create(c, comment=x),
    "name of a new table": lambda c, t, x: create(c, x),
    "option of a new table": lambda c, t, x: create(c, options={"bucket": x}),
    "number of an option": lambda c, t, x: create(c, options={"num-levels": x}),
    "time of an option": lambda c, t, x: create(c, options={"snapshot.time-retained": x}),
    "size of an option": lambda c, t, x: create(c, options={"target-file-size": x}),
    "database": lambda c, t, x: c.create_database(x),
    "property of a database": lambda c, t, x: c.create_database("new", properties={"k": x}),
    "snapshot of a scan": lambda c, t, x: t.scan(snapshot=x).to_arrow(),
    "timestamp of a scan": lambda c, t, x: t.scan(timestamp=x).to_arrow(),
    "limit": lambda c, t, x: t.scan(limit=x).to_arrow(),
    "head": lambda c, t, x: t.head(x),
    "changes": lambda c, t, x: t.changes(x, 1),
    "follow": lambda c, t, x: next(iter(t.follow(x, until=1)), None),
    "consumer of a reader": lambda c, t, x: list(t.follow(consumer_id=x, until=1)),
    "seconds of maintenance": lambda c, t, x: t.maintain(seconds=x),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_argument_is_refused_or_leaves_a_table_that_can_be_read(call: Call, tmp_path: Path) -> None:
    broken, made = [], 0
    refusing = made_warehouse(tmp_path / "0")  # as it was, as long as all values are refused
    for value in [*NUMBERS, *TEXTS, *NO_VALUES]:
        try:
            catalog = penstock.Catalog(str(refusing))
            call(catalog, catalog.table("s.t"), value)
        except PenstockError:
            continue
        except Exception as error:  # noqa: BLE001 -- collected, so that one run names all of them
            broken.append((value, f"{type(error).__name__}: {error}"))
        try:
            check(refusing)
        except Exception as error:  # noqa: BLE001
            broken.append((value, f"the table cannot be read: {type(error).__name__}: {error}"))
        made += 1
        refusing = made_warehouse(tmp_path / str(made))
    check(refusing)
    assert not broken, "\n".join(f"{value!r}: {why}" for value, why in broken)


def made_warehouse(folder: Path) -> Path:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("s")
    commit(catalog.create_table("s.t", [("id", "BIGINT NOT NULL"), ("v", "STRING")], ["id"], options={"bucket": "2"}))
    catalog.table("s.t").create_tag("kept")
    return folder


def check(warehouse: Path) -> None:
    """Read and change all that is in the warehouse."""
    catalog = penstock.Catalog(str(warehouse))
    for database in catalog.databases():
        for name in catalog.tables(database):
            table = catalog.table(f"{database}.{name}")
            table.scan().to_arrow()
            for system in ("snapshots", "tags", "consumers", "options", "schemas", "files", "branches"):
                table.system(system)
            assert len(table.schema)
    table = catalog.table("s.t")
    commit(table)
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
