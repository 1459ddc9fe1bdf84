"""A process of a story: it performs a step on the table until the step is done or refused."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import CommitConflict, ConfigError
from penstock.storage.environment import Environment
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.handle import Table
from penstock.table.maintenance.partition_expiry import expire_partitions
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.operations.executor import OwnProcess
from penstock.table.operations.repair import compact_manifests
from penstock.table.schema.changes import SetOption, evolve
from penstock.table.usable import check_usable
from penstock.table.values.types import type_json
from tests.golden.rows import arrow_changes
from tests.orphans import remove_orphans
from tests.simulation.playing import PATH
from tests.simulation.store import Died, Disk, Fault, Faults, Operation, SimStore
from tests.simulation.story import Step
from tests.simulation.tellers import Ours, schema_change
from tests.stories.statements import run

ATTEMPTS = 8
IsDone = Callable[[Step], bool]


def ambient(disk: Disk, seed: str, drawn: Callable[[str], None] = lambda _: None) -> Environment:
    """Return the time and randomness of one process.

    `drawn` is called with every unique name that the process generates.
    """
    draw = random.Random(seed)

    def new_uuid() -> str:
        made = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        drawn(made)
        return made

    return Environment(
        now_millis=disk.clock,
        elapsed_millis=disk.clock,
        zone_offset_millis=lambda _: 0,
        new_uuid=new_uuid,
        sleep=lambda seconds: disk.clock.pass_(int(seconds * 1000)),
        jitter=draw.random,
    )


def listing_all(faults: Faults) -> Faults:
    """Return the faults without stale listings: no listing tells of a tag that it misses, so its files look unused."""

    def fault_of(operation: Operation) -> Fault | None:
        fault = faults(operation)
        return None if fault is Fault.STALE else fault

    return fault_of


class Actor:
    """A process.

    `users` are the commit users under which it may have committed; `refused` is the conflict that ended its step, and
    `read` the rows that its step read.
    """

    def __init__(
        self,
        name: str,
        disk: Disk,
        seed: str,
        faults: Faults,
        log: list[Operation],
        turn: Callable[[Operation], None] = lambda _: None,
        *,
        stays: bool = False,
    ) -> None:
        """Start the process. One that `stays` keeps the table open from one step to the next."""
        self.name, self.users = name, {name}
        self.refused: Exception | None = None
        self.read: pa.Table | None = None
        self._new_process = lambda: SimStore(disk, faults, len(log), log, turn)
        self._store, self._stays = self._new_process(), stays
        self._opened: TableStore | None = None
        self._ambient = ambient(disk, seed, self.users.add)

    def open(self, branch: str | None = None) -> TableStore:
        if branch is not None or not self._stays:
            return TableStore.open(self._store, PATH, branch, self._ambient)
        if self._opened is None:
            self._opened = TableStore.open(self._store, PATH, None, self._ambient)
        return self._opened

    def perform(self, step: Step, identifier: int, is_done: IsDone) -> None:
        """Perform a step. A process that dies is replaced by a new one, and failed steps are tried again."""
        last: BaseException | None = None
        compacts_first = False
        self.refused = self.read = None
        for attempt in range(ATTEMPTS):
            if attempt and is_done(step):
                return
            try:
                if compacts_first:
                    Table(self.open()).compact(full=True)
                self._do(step, identifier)
            except Died as death:
                last, self._store, self._opened = death, self._new_process(), None
            except (OSError, TableMissing) as failure:
                last = failure
            except (CommitConflict, RowRefused) as refused:
                if attempt and not compacts_first and "penstock compact" in (refused.hint or ""):
                    compacts_first = True  # an earlier attempt failed after its commit, before its compaction
                    continue
                self.refused = refused
                return
            except ConfigError:
                if attempt and is_done(step):  # an earlier attempt failed, and took effect after all
                    return
                raise
            else:
                return
        raise AssertionError(f"{step} failed {ATTEMPTS} times: {last}") from last

    def _do(self, step: Step, identifier: int) -> None:
        match step["op"]:
            case "delete":
                Table(self.open()).delete(pc.field("k") < step["below"])
            case "truncate":
                Table(self.open()).truncate()
            case "rescale":
                self._rescale(step["buckets"])
            case "expire":
                store = self.open()
                now = store.ambient.now_millis()
                expire_snapshots(store, retain_max=step["retain"], retain_min=1, older_than=now)
            case "rollback":
                rollback_to(self.open(), step["target"])
            case "orphans":
                self._store.faults = listing_all(self._store.faults)
                remove_orphans(
                    self.open(), older_than=self._ambient.now_millis() + step.get("millis", 1), executor=OwnProcess()
                )
            case "read":
                self.read = Table(self.open()).scan().to_arrow()
            case "alter":
                self.open(step.get("branch")).evolve(
                    [schema_change(change) for change in step["changes"]], check_usable
                )
            case "manifests":
                compact_manifests(self.open())
            case "write" if "overwrite" in step:
                self._overwrite(step, identifier)
            case "maintain":
                Table(self.open()).maintain()
            case "expire_partitions":
                expire_partitions(self.open())
            case "sql":
                run(self.open(), step)
            case _:
                Ours(self.open, self.name).tell(step, identifier)

    def _overwrite(self, step: Step, identifier: int) -> None:
        table = Table(self.open())
        columns = [(field.name, type_json(field.type)) for field in table.definition.fields]
        data, kinds = arrow_changes(step["rows"], columns)
        with table.overwrite(step["overwrite"], self.name, step.get("options")) as writer:
            writer.write(data, kinds)
            writer.commit(identifier)

    def _rescale(self, buckets: int) -> None:
        store = self.open()
        Table(store).compact(full=True)
        Table(store).rescale(buckets)
        change = [SetOption("bucket", str(buckets))]
        evolve(store.schemas, change, True, store.ambient.now_millis(), check_usable)
