"""Every operation of a table on a store that fails at one of its operations, repeated until it succeeds.

play = VerbPlay("lookup", "rescale")          # a kind of table and a verb
play.operations                               # what the verb asks of the store when nothing fails
play.run(at(17, Fault.LATE))                  # AssertionError unless the table is as if nothing had failed
"""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.clone import clone_table, copy_table
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.path_tables import create_table_at
from penstock.table.handle import Table
from penstock.table.iceberg.publication import publish
from penstock.table.maintenance.branches import create_branch, delete_branch, fast_forward
from penstock.table.maintenance.changelog_expiry import expire_changelogs
from penstock.table.maintenance.done_partitions import mark_partitions_done
from penstock.table.maintenance.partition_expiry import expire_partitions
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag, expire_tags
from penstock.table.maintenance.tags import (
    create_tag,
    rename_tag,
    replace_tag,
    tag_from_timestamp,
    tag_from_watermark,
)
from penstock.table.meta.store import TableMissing, TableStore, branch_names
from penstock.table.operations.executor import OwnProcess
from penstock.table.operations.repair import (
    compact_manifests,
    remove_unexisting_files,
    remove_unexisting_manifests,
)
from penstock.table.schema.changes import SchemaChange, SetOption, evolve
from penstock.table.sql.interpreter import Interpreter
from penstock.table.values.types import parse_type
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.simulation.store import Died, Disk, Faults, Operation, SimStore, never

WAREHOUSE = "/warehouse"
PATH = f"{WAREHOUSE}/db.db/t"
COPY = f"{WAREHOUSE}/db.db/copy"
ATTEMPTS = 12
REFUSALS = 3
WATERMARK = 5
LONG_AFTER = 10 * 86_400_000
COLUMNS = [("p", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")]
KEYS = ("p", "k")
KINDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "lookup": (KEYS, {"bucket": "2", "changelog-producer": "lookup"}),
    "vectors": (KEYS, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "dynamic": (KEYS, {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "append": ((), {"bucket": "-1"}),
    "aggregation": (
        KEYS,
        {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "max",
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": "2",
        },
    ),
    "first-row": (KEYS, {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"}),
    "partial-update": (KEYS, {"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "lookup"}),
    "postponed": (KEYS, {"bucket": "-2"}),
    "moving keys": (("k",), {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "long changelog": (
        KEYS,
        {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.min": "8"}
        | {"changelog.num-retained.max": "9", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "7"},
    ),
    "append vectors": ((), {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "iceberg": ((), {"bucket": "-1", "metadata.iceberg.storage": "table-location"}),
}
USER, IDENTIFIER = "job", 100
FIRST = [("a", 1, "1"), ("a", 2, "2"), ("b", 1, "3"), ("b", 2, "4")]
SECOND = [("a", 2, "5"), ("a", 3, "6"), ("b", 3, "7")]

Verb = Callable[[TableStore], object]


def rows(*values: tuple[object, ...]) -> pa.Table:
    kinds = [pa.string(), pa.int32(), pa.string()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), kinds, strict=True)]
    return pa.Table.from_arrays(columns, names=[name for name, _ in COLUMNS])


def write(store: TableStore) -> None:
    with Table(store).writer(USER) as writer:
        writer.write(rows(("a", 1, "new"), ("b", 4, "new"), ("c", 1, "new")))
        writer.commit(IDENTIFIER)


def overwrite(partition: Mapping[str, str] | None) -> Verb:
    def verb(store: TableStore) -> None:
        with Table(store).overwrite(partition, USER) as writer:
            writer.write(rows(("a", 1, "new"), ("a", 7, "new")))
            writer.commit(IDENTIFIER)

    return verb


def renamed(store: TableStore) -> None:
    try:
        rename_tag(store, "kept", "renamed")
    except ConfigError as refusal:
        # A rename that died half way leaves both names; its error says how to resolve that.
        if "delete 'kept'" not in str(refusal.hint):
            raise
        delete_tag(store, "kept")


def evolved(store: TableStore) -> None:
    evolve(store.schemas, [penstock.AddColumn("extra", parse_type("INT"))], True, store.ambient.now_millis())


def altered(change: SchemaChange) -> Verb:
    return lambda store: evolve(store.schemas, [change], True, store.ambient.now_millis())


def cloned(store: TableStore) -> None:
    backend = FileCatalog(store.storage, WAREHOUSE, store.ambient)
    catalog = Catalog(WAREHOUSE, ambient=store.ambient, backend=backend)
    clone_table(Table(store), catalog, "db.copy", into_existing=True)


def copied(store: TableStore) -> None:
    backend = FileCatalog(store.storage, WAREHOUSE, store.ambient)
    copy_table(Table(store), Catalog(WAREHOUSE, ambient=store.ambient, backend=backend), "db.copy", OwnProcess())


def catalog_of(store: TableStore) -> Catalog:
    return Catalog(WAREHOUSE, ambient=store.ambient, backend=FileCatalog(store.storage, WAREHOUSE, store.ambient))


def created(store: TableStore) -> None:
    catalog, columns = catalog_of(store), [(name, parse_type(text)) for name, text in COLUMNS]
    catalog.create_table("db.copy", columns, KEYS, ["p"], {"bucket": "1"}, ignore_if_exists=True)


def dropped(store: TableStore) -> None:
    catalog_of(store).drop_table("db.t", ignore_if_missing=True)


def table_renamed(store: TableStore) -> None:
    catalog = catalog_of(store)
    try:
        catalog.rename_table("db.t", "db.copy")
    except ConfigError as refusal:
        # A rename that died half way leaves copies of some files; its error says what to do.
        if "delete these files" not in str(refusal.hint):
            raise
        store.storage.delete_tree(COPY)
        catalog.rename_table("db.t", "db.copy")


def said(statement: str) -> Verb:
    """Return a statement of SQL as a verb. DuckDB reads the table in a thread of its own."""

    def verb(store: TableStore) -> None:
        with Interpreter(catalog_of(store), "db") as interpreter:
            try:
                interpreter.last_result(statement)
            except Exception:
                if isinstance(store.storage, SimStore) and store.storage.has_died:
                    raise Died from None
                raise

    return verb


VERBS: Mapping[str, Verb] = {
    "write": write,
    "overwrite all": overwrite({}),
    "overwrite one partition": overwrite({"p": "a"}),
    "overwrite what is written to": overwrite(None),
    "delete": lambda store: Table(store).delete(pc.field("k") == 2),
    "truncate": lambda store: Table(store).truncate(),
    "drop partition": lambda store: Table(store).drop_partitions([{"p": "a"}]),
    "compact": lambda store: Table(store).compact(full=True),
    "rescale": lambda store: Table(store).rescale(3),
    "analyze": lambda store: Table(store).analyze(),
    "expire": lambda store: expire_snapshots(
        store, retain_max=1, retain_min=1, older_than=store.ambient.now_millis(), protect_users=0
    ),
    "tag": lambda store: create_tag(store, "new"),
    "delete tag": lambda store: delete_tag(store, "kept"),
    "rename tag": renamed,
    "replace tag": lambda store: replace_tag(store, "kept"),
    "branch": lambda store: create_branch(store, "new", "kept"),
    "fast-forward": lambda store: fast_forward(store, "side"),
    "rollback": lambda store: rollback_to(store, "kept"),
    "add column": evolved,
    "drop column": altered(penstock.DropColumn("v")),
    "rename column": altered(penstock.RenameColumn("v", "w")),
    "set option": altered(SetOption("target-file-size", "1 mb")),
    "clone": cloned,
    "copy files": copied,
    "compact some": lambda store: Table(store).compact(full=False),
    "sort": lambda store: Table(store).sort(["k"]),
    "manifests": compact_manifests,
    "rollback to snapshot": lambda store: rollback_to(store, 1),
    "delete branch": lambda store: delete_branch(store, "side"),
    "expire tags": lambda store: expire_tags(store, older_than=store.ambient.now_millis() + 1),
    "expire changelogs": lambda store: expire_changelogs(store, delete_all=True),
    "expire partitions": lambda store: expire_partitions(
        store, {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
    ),
    "mark partition done": lambda store: mark_partitions_done(store, [{"p": "a"}]),
    "reset consumer": lambda store: Table(store).reset_consumer("reader", 2),
    "orphans": lambda store: remove_orphans(store, store.ambient.now_millis() + LONG_AFTER, OwnProcess()),
    "empty branch": lambda store: create_branch(store, "new"),
    "tag from timestamp": lambda store: tag_from_timestamp(store, "new", 0, None),
    "tag from watermark": lambda store: tag_from_watermark(store, "new", WATERMARK, None),
    "publish iceberg": lambda store: publish(store, again=True),
    "remove unexisting files": remove_unexisting_files,
    "remove unexisting manifests": remove_unexisting_manifests,
    "create table": created,
    "drop table": dropped,
    "rename table": table_renamed,
    "update": said("UPDATE t SET v = 'new' WHERE k = 2"),
    "merge": said(
        "MERGE INTO t USING (VALUES ('a', 1, 'new'), ('b', 40, 'new')) AS s (p, k, v) ON t.p = s.p AND t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (p, k, v) VALUES (s.p, s.k, s.v)"
    ),
}
STATEMENTS = {"update", "merge"}
# After these the table is not where it was.
ENDING = {"drop table", "rename table"}


@functools.cache
def prepared(kind: str) -> Disk:
    """Return the table with which every verb begins."""
    disk = Disk()
    store = SimStore(disk)
    keys, options = KINDS[kind]
    columns = [(name, parse_type(text)) for name, text in COLUMNS]
    create_table_at(store, PATH, columns, keys, ["p"], options, None, ambient(disk, kind))
    _write(store, None, FIRST, 0)
    opened = TableStore.open(store, PATH, None, ambient(disk, kind))
    create_tag(opened, "kept")
    create_branch(opened, "side", "kept")
    _write(store, None, SECOND, 1, WATERMARK)
    _write(store, "side", [("a", 9, "side")], 0)
    return disk


def _write(
    store: SimStore,
    branch: str | None,
    values: list[tuple[object, ...]],
    identifier: int,
    watermark: int | None = None,
) -> None:
    opened = TableStore.open(store, PATH, branch, ambient(store.disk, f"{branch} {identifier}"))
    with Table(opened).writer(USER) as writer:
        writer.write(rows(*values))
        writer.commit(identifier, watermark=watermark)


def ambient(disk: Disk, seed: str) -> Environment:
    draw = random.Random(seed)
    return Environment(
        now_millis=disk.clock,
        elapsed_millis=disk.clock,
        zone_offset_millis=lambda _: 0,
        new_uuid=lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4)),
        sleep=lambda seconds: disk.clock.pass_(int(seconds * 1000)),
        jitter=draw.random,
    )


def is_for(kind: str, verb: str) -> bool:
    """Return whether a kind of table has this verb."""
    keys, options = KINDS[kind]
    match verb:
        case "update" | "merge":
            return kind in {"lookup", "vectors", "append"}  # what differs between others is in their commits
        case "rescale":
            return int(options["bucket"]) > 0
        case "delete":
            return "merge-engine" not in options
        case "sort":
            return not keys
        case "publish iceberg":
            return kind == "iceberg"
        case "drop column" | "rename column":
            return "fields.v.aggregate-function" not in options
        case "overwrite one partition" | "overwrite what is written to":
            return kind != "moving keys"  # one of the written keys is in another partition: refused
    return True


class Performance:
    """The operations requested from the store, and the failures of the attempts."""

    def __init__(self) -> None:
        self.log: list[Operation] = []
        self.failures: list[BaseException] = []

    def __str__(self) -> str:
        return "\n".join(str(line) for line in (*self.failures, *self.log))


class VerbPlay:
    """One verb on one kind of table, which has two commits, a tag on the first, and a branch that starts at the tag."""

    def __init__(self, kind: str, verb: str) -> None:
        self.kind, self.verb = kind, verb
        self._before = prepared(kind)
        self.operations = self._performed(self._copy(), lambda operation: None).log
        disk = self._copy()
        self._performed(disk, never)
        self.expected = self._told(disk, check=False)

    def run(self, faults: Faults) -> None:
        disk = self._copy()
        performance = self._performed(disk, faults)
        disk.settle()
        found = self._told(disk)
        assert found == self.expected, f"{found}\nand not\n{self.expected}\n{performance}"
        for path in self._tables(disk):
            remove_orphans(self._open(SimStore(disk), path), disk.clock() + LONG_AFTER, OwnProcess())
        found = self._told(disk, check=False)
        assert found == self.expected, f"after the removal of orphans\n{performance}"

    def die(self, faults: Faults) -> None:
        """Fail without repeating: the table must still be whole."""
        disk = self._copy()
        self._performed(disk, faults, attempts=1)
        disk.settle()
        self._told(disk)

    # ------------------------------------------------------------------------------------------------------------

    def _copy(self) -> Disk:
        disk = Disk(files=dict(self._before.files), folders=set(self._before.folders))
        disk.clock.millis = self._before.clock.millis
        return disk

    def _performed(self, disk: Disk, faults: Faults, attempts: int = ATTEMPTS) -> Performance:
        performance = Performance()
        in_turn = self.verb in STATEMENTS
        store = SimStore(disk, faults, log=performance.log, threads_in_turn=in_turn)
        for attempt in range(attempts):
            try:
                VERBS[self.verb](self._open(store, attempt=attempt))
            except Died as death:
                performance.failures.append(death)
                store = SimStore(disk, faults, attempt, performance.log, threads_in_turn=in_turn)
            except (OSError, CommitConflict, TableMissing) as failure:
                if isinstance(failure, TableMissing) and self.verb in ENDING and performance.failures:
                    return performance  # an earlier attempt did it, as its error says
                performance.failures.append(failure)
            except ConfigError as refusal:
                # An earlier attempt may have succeeded and been reported as failed: "there is a tag already". The
                # table's state decides.
                if not performance.failures:
                    raise
                performance.failures.append(refusal)
                # Refused several times in the same way: the table is in its final state, which is compared next.
                if sum(isinstance(failure, ConfigError) for failure in performance.failures) == REFUSALS:
                    return performance
            else:
                return performance
        assert attempts == 1, f"{self.verb} failed {attempts} times: {performance}"
        return performance

    def _open(self, store: SimStore, path: str = PATH, branch: str | None = None, attempt: int = 0) -> TableStore:
        seed = f"{self.kind} {self.verb} {len(store.log)} {attempt}"
        return TableStore.open(store, path, branch, ambient(store.disk, seed))

    def _tables(self, disk: Disk) -> list[str]:
        return [path for path in (PATH, COPY) if f"{path}/schema/schema-0" in disk.files]

    def _told(self, disk: Disk, *, check: bool = True) -> dict[str, Any]:
        """Return everything a user can see, read without faults, of tables that satisfy the invariants."""
        seen: dict[str, Any] = {}
        for path in self._tables(disk):
            store = self._open(SimStore(disk), path)
            for branch in (None, *branch_names(store)):
                if branch is not None and not store.schemas.on_branch(branch).ids():
                    continue  # its schemas are written last: it does not exist yet
                table = Table(self._open(SimStore(disk), path, branch))
                if check:
                    check_invariants(table)
                seen[f"{path} {branch}"] = _of_table(table)
        return seen


def _of_table(table: Table) -> dict[str, Any]:
    earliest = table.store.snapshots.earliest_id()
    return {
        "rows": rows_of(table.scan().to_arrow()),
        "consumers": table.consumers,
        "tags": {name: rows_of(table.scan(tag=name).to_arrow()) for name in sorted(table.tags)},
        "columns": table.definition.names,
        "statistics": table.latest_snapshot is not None and table.latest_snapshot.statistics is not None,
        "beginning": earliest is not None and earliest > 1,
    }


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
